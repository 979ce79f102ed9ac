// `halfulp page`: reports as one HTML page, or as a folder of them, which the Python package halfulp_page draws.
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/commands/program.hpp>
#include <halfulp/report/experiment.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/report/schema.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/own_files.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace halfulp::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view needed =
    "it takes a Python with matplotlib and Jinja2: apt-get install python3 python3-matplotlib python3-jinja2, or pip "
    "install matplotlib jinja2; HALFULP_PYTHON names another Python";

struct Arguments {
  std::vector<std::string> reports;
  std::string out, title, python;
  std::size_t rows = 50;
};

/// The folder that holds the Python package halfulp_page.
fs::path package_folder() {
  const fs::path found = find_own({"../halfulp_page", HALFULP_INSTALLED_PAGE, "python/halfulp_page"});
  if (found.empty()) throw BackendMissing("no page: the Python package halfulp_page is not next to this program");
  return found.parent_path();
}

/// The reports in a folder, sorted by name. The folder may hold other JSON too.
std::vector<std::string> reports_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".json" && !fs::is_directory(at->path(), error)) files.push_back(at->path().string());
  if (error) throw std::invalid_argument(fmt::format("{}: {}", folder, error.message()));
  std::sort(files.begin(), files.end());
  std::erase_if(files, [](const std::string& file) {
    const Json json = read_json(file);
    if (!json.is_object() || !json.contains("schema_version")) return true;
    (void)read_report(file);
    return false;
  });
  if (files.empty())
    throw std::invalid_argument(fmt::format("{}: no report in this folder; accepted: reports as *.json", folder));
  return files;
}

/// Reads and validates every report on the command line.
std::vector<std::string> report_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  std::error_code error;
  for (const std::string& path : paths) {
    if (path == "-") throw std::invalid_argument("page: '-': accepted: files, or folders of them");
    if (fs::is_directory(path, error)) {
      const std::vector<std::string> found = reports_in(path);
      files.insert(files.end(), found.begin(), found.end());
    } else {
      (void)read_report(path);
      files.push_back(path);
    }
  }
  return files;
}

/// What the page says about experiments besides their reports, in the order of a lecture.
std::string about_experiments() {
  Json list = Json::array();
  for (const Experiment& experiment : kinds_of_report())
    list.push_back({{"name", experiment.name}, {"question", experiment.question}, {"retells", experiment.retells}});
  return list.dump();
}

/// The message without "halfulp_page: " and the line's end; of a traceback only the last line.
std::string last_line(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  text.erase(0, text.rfind('\n') + 1);
  const std::string_view name = "halfulp_page: ";
  return text.starts_with(name) ? text.substr(name.size()) : text;
}

/// Draws the page with the first Python that has the modules: the named one, else the one on PATH, else the system's.
std::string drawn(const std::vector<std::string>& options, const std::string& python) {
  // Python loads the package from its path, and nothing else from the folder around it. A wheel lies in such a folder
  // with NumPy and other packages, and those may be built for another Python than the one that draws. Python before
  // 3.11 does not know PYTHONSAFEPATH: the current folder is taken off its path here.
  constexpr const char* code =
      "import sys; sys.path = [path for path in sys.path if path]; "
      "import importlib.util, runpy; folder = sys.argv.pop(1); "
      "spec = importlib.util.spec_from_file_location('halfulp_page', folder + '/halfulp_page/__init__.py'); "
      "module = sys.modules['halfulp_page'] = importlib.util.module_from_spec(spec); spec.loader.exec_module(module); "
      "runpy.run_module('halfulp_page', run_name='__main__', alter_sys=True)";
  const std::vector<std::pair<std::string, std::string>> variables{{"PYTHONSAFEPATH", "1"},
                                                                   {"PYTHONDONTWRITEBYTECODE", "1"},
                                                                   {"PYTHONUTF8", "1"},
                                                                   {"PYTHONINSPECT", ""},
                                                                   {"MPLBACKEND", "agg"}};
  std::string missing, broken;
  bool traceback = false;
  for (const std::string& program :
       python.empty() ? std::vector<std::string>{"python3", "/usr/bin/python3"} : std::vector{python}) {
    std::vector<std::string> words{program, "-c", code, package_folder().string()};
    words.insert(words.end(), options.begin(), options.end());
    const auto answer = run_program(words, variables, about_experiments());
    if (!answer || answer->status == 126 || answer->status == 127) {  // or a script in its place found nothing to run
      if (missing.empty()) missing = fmt::format("no {}; {}", program, needed);
      continue;
    }
    const std::string why = last_line(answer->error);
    traceback = traceback || answer->error.find("Traceback") != std::string::npos;
    switch (answer->status) {
      case 0:
        if (!answer->output.empty()) return answer->output;
        broken = program + " ended well and wrote nothing";
        break;
      case exit_status::bad_input: throw std::invalid_argument(why);
      case exit_status::interrupted: throw Interrupted{};
      case exit_status::backend_missing: missing = program + ": " + why; break;
      default:
        broken = fmt::format(
            "{} ended with status {}: {}", program, answer->status,
            why.empty() ? "(it said nothing)" : why);  // too old a Python, perhaps: the next one may do
    }
  }
  // A traceback is ours; whatever else fails under that name is no Python that draws.
  if (!broken.empty() && !python.empty() && !traceback)
    throw std::invalid_argument(fmt::format("--python: {}; accepted: a Python with matplotlib and Jinja2", broken));
  if (!broken.empty()) throw std::runtime_error(broken);
  throw BackendMissing("no page: " + missing);
}

/// Writes the files of a folder of pages; the first page last, so that it never refers to what is not there.
void write_folder(const fs::path& folder, const Json& files) {
  std::error_code error;
  fs::create_directories(folder / "figures", error);
  if (error) throw std::invalid_argument(fmt::format("--out {}: {}", folder.string(), error.message()));
  const std::string first = "index.html";
  for (const auto& [name, text] : files.items())
    if (name != first) write_file((folder / name).string(), text.get<std::string>());
  write_file((folder / first).string(), files.at(first).get<std::string>());
}

void page(const Arguments& arguments) {
  if (arguments.out.empty()) throw std::invalid_argument("--out: a file, a folder or - is missing");
  const std::vector<std::string> files = report_files(arguments.reports);
  std::error_code error;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (fs::equivalent(files[i], files[j], error))
        throw std::invalid_argument(fmt::format("{} is given twice; accepted: once", files[i]));
  const bool folder = arguments.out.ends_with('/') || fs::is_directory(arguments.out, error);
  if (arguments.out != "-" && !folder) {
    for (const std::string& file : files)
      if (fs::equivalent(file, arguments.out, error))
        throw std::invalid_argument(fmt::format("--out {}: that is a report; accepted: another file", arguments.out));
    check_writable(arguments.out);
  }
  std::vector<std::string> options{"--out=-", "--about=-", fmt::format("--rows={}", arguments.rows)};
  if (!arguments.title.empty()) options.push_back("--title=" + arguments.title);
  if (folder) options.push_back("--folder");
  options.push_back("--");
  options.insert(options.end(), files.begin(), files.end());
  const std::string html = drawn(options, arguments.python);
  if (arguments.out == "-") return write_output(html);
  if (folder) write_folder(arguments.out, Json::parse(html));
  else write_file(arguments.out, html);
  const std::string first = folder ? (fs::path(arguments.out) / "index.html").string() : arguments.out;
  write_output(fmt::format("page: {} ({} report{})\n", first, files.size(), files.size() == 1 ? "" : "s"));
}

}  // namespace

void add_page_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "page", "reports as HTML, one page or a folder, with pictures; needs Python, matplotlib and Jinja2");
  const auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("REPORT", arguments->reports,
                   "reports, or folders of them; two of the same experiment are shown side by side")
      ->required();
  command
      ->add_option(
          "--out", arguments->out,
          "a file for one page, a folder (DIR/) for many, or - for standard output; a folder gets an overview, a "
          "page for each experiment, and every picture as a file")
      ->required()
      ->type_name("FILE|DIR|-");
  command->add_option("--title", arguments->title, "its title")->type_name("TEXT");
  add_number_option(*command, "--rows", arguments->rows, 0, 1'000'000'000,
                    "maximum number of rows per table, 0 for all (default 50)");
  command->add_option("--python", arguments->python, "the Python that draws; else that of PATH, else /usr/bin/python3")
      ->type_name("PROGRAM")
      ->envname("HALFULP_PYTHON");
  command->callback([arguments] { page(*arguments); });
}

}  // namespace halfulp::cli
