// A folder of trials' results: what one run has computed another one reads, on this machine or on another.
//
//   FOLDER/halfulp-store.json              {"format": "halfulp-store", "version": 1}
//   FOLDER/KIND-VERSION/ab/REST.trial      a framed file (support/files.hpp) with the magic "halfulpT": the JSON text
//                                          {"kind", "version", "item", "made", "record"}
//
// abREST is the XXH3-128 of the text [kind, version, item]: a file's name says what it answers, so that stores merge by
// copying. Files are complete or not there, and nothing is locked: two runs that compute the same trial write the same
// record.
#pragma once

#include <halfulp/support/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// What trials of one kind compute. Its version is raised when any of its results changes; records of another version
/// are never read. tests/experiments/experiment_trials_test.cpp notices results that changed under an old version.
struct TrialKind {
  std::string_view name;  ///< letters, digits and _
  int version = 1;
  std::string folder() const;  ///< "training-1"
};

/// One piece of an experiment's work.
struct Trial {
  std::string label;  ///< for people; the result does not depend on it
  Json item;          ///< all that the result depends on besides the kind: parameters, seed, data
  /// "training-1/0123...": 32 hexadecimal digits after the folder of its kind.
  std::string key(const TrialKind& kind) const;
};

class TrialStore {
 public:
  /// Of a folder that is not there or empty: make it a store with the first record, take it for an empty store, refuse.
  enum class IfAbsent : std::uint8_t { make, read, refuse };
  /// Throws std::invalid_argument in one line for a folder that is no store, that is one of another version, and with
  /// `make` for one that cannot be written.
  TrialStore(std::string folder, IfAbsent if_absent);

  /// The record; none where there is none. Throws std::invalid_argument in one line that begins with its path for a
  /// file that is damaged, answers something else, or cannot be read.
  std::optional<Json> find(const TrialKind& kind, const Trial& trial) const;
  /// Only whether there is a file.
  bool has(const TrialKind& kind, const Trial& trial) const;
  /// Throws std::invalid_argument in one line: a full disk, ...
  void keep(const TrialKind& kind, const Trial& trial, const Json& record) const;
  /// May be called from several threads at once. Empty: nobody is told.
  std::function<void(const std::string& line)> damaged = {};

  struct Entry {
    std::string key, path;
  };
  /// Lists all records in order of keys; opens none, follows no link. Throws std::invalid_argument in one line for a
  /// folder that cannot be read.
  std::vector<Entry> entries() const;
  /// The unfinished files of killed processes, and of those that write now.
  std::vector<std::string> left_behind() const;
  /// What a file holds. Throws Damaged unless it is whole and its content is what its name says, std::invalid_argument
  /// where it cannot be read; in one line that begins with its path.
  static Json read(const Entry& entry);
  struct Damaged : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
  };

  const std::string& folder() const { return folder_; }

 private:
  std::string path_of(const std::string& key) const;
  std::string marker() const;
  void make() const;
  std::string folder_;
};

}  // namespace halfulp
