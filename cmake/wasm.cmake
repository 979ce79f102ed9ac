# The toolchain file of ./run web: Debian's clang-19, wasi-libc and libc++.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_AR ar)  # of binutils, which makes no index of such files: wasm-ld does without
set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> qcS <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

# Libraries that are headers alone. Their folder has the headers of this machine's C library too, which the compiler
# must not find: so it looks into a folder of links.
set(halfulp_header_folders ${CMAKE_BINARY_DIR}/header_packages)
foreach(folder boost Random123 fmt nlohmann)
  find_path(${folder}_folder NAMES ${folder} PATHS /usr/include NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  file(MAKE_DIRECTORY ${halfulp_header_folders})
  file(CREATE_LINK ${${folder}_folder}/${folder} ${halfulp_header_folders}/${folder} SYMBOLIC)
endforeach()
