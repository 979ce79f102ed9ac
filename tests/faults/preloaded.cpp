// A library to preload. It makes calls of the C library fail, as a full disk, a lack of memory or of threads would:
//
//   HALFULP_FAULT=rename:3      the third call of rename fails
//   HALFULP_FAULT=rename:3+     the third and all after it
//   HALFULP_FAULT=kill:17       the process dies at the 17th call that changes files, before it
//   HALFULP_FAULT_COUNTS=FILE   at the end, how often each was called: "rename 3" on a line of its own
//
// Calls count while main() runs. The processes that this one starts are spared.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

enum Fault {
  write_,
  short_write,
  interrupted_write,
  pwrite_,
  read_,
  pread_,
  open_,
  close_,
  fsync_,
  rename_,
  link_,
  unlink_,
  mkdir_,
  fchmod_,
  fallocate_,
  flock_,
  fstat_,
  mmap_,
  malloc_,
  thread,
  clock_,
  kill_,
  fault_count
};

/// As HALFULP_FAULT has them; `error` is what the caller is told.
struct Kind {
  std::string_view name;
  int error;
};
constexpr std::array<Kind, fault_count> kinds{{{"write", ENOSPC},  {"short_write", 0}, {"interrupted_write", EINTR},
                                               {"pwrite", ENOSPC}, {"read", EIO},      {"pread", EIO},
                                               {"open", EMFILE},   {"close", EIO},     {"fsync", EIO},
                                               {"rename", EACCES}, {"link", EPERM},    {"unlink", EACCES},
                                               {"mkdir", ENOSPC},  {"fchmod", EPERM},  {"fallocate", ENOSPC},
                                               {"flock", ENOLCK},  {"fstat", EIO},     {"mmap", ENOMEM},
                                               {"malloc", ENOMEM}, {"thread", EAGAIN}, {"clock", 0},
                                               {"kill", 0}}};

std::atomic<bool> counting{false};
std::array<std::atomic<long>, fault_count> calls{};
Fault chosen = fault_count;
long first = 0;
bool all_after = false;
char counts_file[4096];

/// Whether this call is to fail; errno then says why.
bool fails(Fault fault) {
  if (!counting.load(std::memory_order_relaxed)) return false;
  const long call = calls[fault].fetch_add(1, std::memory_order_relaxed) + 1;
  if (fault != chosen || !(all_after ? call >= first : call == first)) return false;
  if (fault == kill_) raise(SIGKILL);
  errno = kinds[fault].error;
  return true;
}

/// The function that this library hides.
template <class F>
F* next(const char* name, std::atomic<void*>& found) {
  if (!found) found = dlsym(RTLD_NEXT, name);
  return reinterpret_cast<F*>(found.load());
}

void choose(const char* text) {
  const std::string_view all = text;
  const std::size_t colon = all.find(':');
  for (int i = 0; i < fault_count; ++i)
    if (all.substr(0, colon) == kinds[static_cast<std::size_t>(i)].name) chosen = static_cast<Fault>(i);
  first = colon == all.npos ? 0 : std::atol(text + colon + 1);
  all_after = all.ends_with('+');
  if (chosen == fault_count || first < 1) {
    std::fprintf(stderr, "HALFULP_FAULT is '%s'\n", text);
    std::abort();
  }
}

__attribute__((constructor)) void begin() {
  if (const char* const text = std::getenv("HALFULP_FAULT")) choose(text);
  if (const char* const path = std::getenv("HALFULP_FAULT_COUNTS"))
    std::strncpy(counts_file, path, sizeof counts_file - 1);
  for (const char* const name : {"LD_PRELOAD", "HALFULP_FAULT", "HALFULP_FAULT_COUNTS"}) unsetenv(name);
}

__attribute__((destructor)) void end() {
  counting = false;
  if (!counts_file[0]) return;
  FILE* const file = std::fopen(counts_file, "w");
  for (std::size_t i = 0; file && i < fault_count; ++i)
    std::fprintf(file, "%.*s %ld\n", static_cast<int>(kinds[i].name.size()), kinds[i].name.data(), calls[i].load());
  if (file) std::fclose(file);
}

using Main = int(int, char**, char**);
Main* program = nullptr;
int counted_main(int count, char** words, char** environment) {
  counting = true;
  const int status = program(count, words, environment);
  counting = false;
  return status;
}

}  // namespace

// `FUNCTION` below is the hidden function.
#define FUNCTION(name)                    \
  static std::atomic<void*> found_##name; \
  auto* const original = next<decltype(::name)>(#name, found_##name)

extern "C" {

int __libc_start_main(Main* main, int count, char** words, void (*init)(), void (*fini)(), void (*last)(), void* end) {
  static std::atomic<void*> found;
  program = main;
  return next<int(Main*, int, char**, void (*)(), void (*)(), void (*)(), void*)>("__libc_start_main", found)(
      counted_main, count, words, init, fini, last, end);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  FUNCTION(write);
  fails(kill_);
  if (fails(write_) || fails(interrupted_write)) return -1;
  return original(fd, bytes, size > 1 && fails(short_write) ? 1 : size);
}

ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t at) {
  FUNCTION(pwrite64);
  fails(kill_);
  if (fails(pwrite_)) return -1;
  return original(fd, bytes, size > 1 && fails(short_write) ? 1 : size, at);
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) { return pwrite64(fd, bytes, size, at); }

ssize_t read(int fd, void* bytes, size_t size) {
  FUNCTION(read);
  return fails(read_) ? -1 : original(fd, bytes, size);
}

ssize_t pread64(int fd, void* bytes, size_t size, off64_t at) {
  FUNCTION(pread64);
  return fails(pread_) ? -1 : original(fd, bytes, size, at);
}
ssize_t pread(int fd, void* bytes, size_t size, off_t at) { return pread64(fd, bytes, size, at); }

int open64(const char* path, int flags, ...) {
  FUNCTION(open64);
  va_list list;
  va_start(list, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (flags & O_CREAT) fails(kill_);
  return fails(open_) ? -1 : original(path, flags, mode);
}
int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return open64(path, flags, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  FUNCTION(fopen64);
  return fails(open_) ? nullptr : original(path, mode);
}
FILE* fopen(const char* path, const char* mode) { return fopen64(path, mode); }

int close(int fd) {
  FUNCTION(close);
  const int closed = original(fd);  // Linux closes it, whatever it says
  return fails(close_) ? -1 : closed;
}

int fsync(int fd) {
  FUNCTION(fsync);
  fails(kill_);
  return fails(fsync_) ? -1 : original(fd);
}

int rename(const char* from, const char* to) {
  FUNCTION(rename);
  fails(kill_);
  return fails(rename_) ? -1 : original(from, to);
}

int link(const char* from, const char* to) {
  FUNCTION(link);
  fails(kill_);
  return fails(link_) ? -1 : original(from, to);
}

int unlink(const char* path) {
  FUNCTION(unlink);
  fails(kill_);
  return fails(unlink_) ? -1 : original(path);
}

int remove(const char* path) {
  FUNCTION(remove);
  fails(kill_);
  return fails(unlink_) ? -1 : original(path);
}

int mkdir(const char* path, mode_t mode) {
  FUNCTION(mkdir);
  fails(kill_);
  return fails(mkdir_) ? -1 : original(path, mode);
}

int fchmod(int fd, mode_t mode) {
  FUNCTION(fchmod);
  return fails(fchmod_) ? -1 : original(fd, mode);
}

int fallocate64(int fd, int mode, off64_t at, off64_t size) {
  FUNCTION(fallocate64);
  return fails(fallocate_) ? -1 : original(fd, mode, at, size);
}
int fallocate(int fd, int mode, off_t at, off_t size) { return fallocate64(fd, mode, at, size); }

int flock(int fd, int operation) {
  FUNCTION(flock);
  return fails(flock_) ? -1 : original(fd, operation);
}

int fstat64(int fd, struct stat64* status) {
  FUNCTION(fstat64);
  return fails(fstat_) ? -1 : original(fd, status);
}
int fstat(int fd, struct stat* status) { return fstat64(fd, reinterpret_cast<struct stat64*>(status)); }

/// oneTBB 2022.1 spins for ever if its allocator's first call of mmap fails. The smallest program does so too: no code
/// of ours could prevent it. From this version on, no call of that allocator fails here.
static bool spins_without(const void* caller) {
  using Version = int();
  static Version* const version = reinterpret_cast<Version*>(dlsym(RTLD_DEFAULT, "TBB_runtime_interface_version"));
  Dl_info place{};
  return version && version() >= 12150 && dladdr(caller, &place) && place.dli_fname &&
         std::strstr(place.dli_fname, "libtbbmalloc");
}

static void* map_for(const void* caller, void* place, size_t size, int protection, int flags, int fd, off64_t at) {
  FUNCTION(mmap64);
  if (!spins_without(caller) && fails(mmap_)) return MAP_FAILED;
  return original(place, size, protection, flags, fd, at);
}
void* mmap64(void* place, size_t size, int protection, int flags, int fd, off64_t at) {
  return map_for(__builtin_return_address(0), place, size, protection, flags, fd, at);
}
void* mmap(void* place, size_t size, int protection, int flags, int fd, off_t at) {
  return map_for(__builtin_return_address(0), place, size, protection, flags, fd, at);
}

int pthread_create(pthread_t* made, const pthread_attr_t* attributes, void* (*work)(void*), void* argument) {
  FUNCTION(pthread_create);
  return fails(thread) ? EAGAIN : original(made, attributes, work, argument);
}

/// Somebody sets the clock back by an hour.
int clock_gettime(clockid_t clock, struct timespec* time) {
  FUNCTION(clock_gettime);
  const int status = original(clock, time);
  if (clock == CLOCK_REALTIME && fails(clock_)) time->tv_sec -= 3600;
  return status;
}

// dlsym needs memory itself, so glibc's own names are taken.
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void* malloc(size_t size) { return fails(malloc_) ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return fails(malloc_) ? nullptr : __libc_calloc(count, size); }
void* realloc(void* block, size_t size) { return fails(malloc_) ? nullptr : __libc_realloc(block, size); }
void* memalign(size_t alignment, size_t size) { return fails(malloc_) ? nullptr : __libc_memalign(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** block, size_t alignment, size_t size) {
  void* const made = memalign(alignment, size);
  if (made) *block = made;
  return made ? 0 : ENOMEM;
}

}  // extern "C"
