// One verification as the command line shows it, keeps it in a state file and commits it to the ledger.
#pragma once

#include <halfulp/commands/terminal.hpp>
#include <halfulp/evidence/verify/verify.hpp>
#include <halfulp/report/config.hpp>

#include <map>
#include <optional>
#include <string>

namespace halfulp::cli {

/// One task against one reference, finished or not.
struct Verification {
  Task task;
  OperandSet operands;
  const Device* reference = nullptr;
  bool approximate = false;                       ///< the reference need not be correctly rounded
  std::string skipped;                            ///< why nothing is compared; empty where something is
  std::map<std::uint64_t, verify::Chunk> chunks;  ///< finished ones, by index
  std::optional<TaskComparison> nans;             ///< which NaN, where the reference's is not the canonical one
  double seconds = 0;                             ///< over all runs that contributed

  bool complete() const { return chunks.size() == verify::number_of_chunks(operands); }
  Comparison found() const;  ///< in all chunks
  /// It differs though the reference is correctly rounded, or as no approximation does.
  bool fails() const { return found().fails() || (nans && nans->differing != 0); }
  std::string digest() const;  ///< precondition: complete()
};

/// "0x3c00 (1)": a code word of a task's operand or result and its value.
std::string operand_text(const Task& task, std::uint64_t code);
std::string result_text(const Task& task, std::uint64_t code);

/// What decides a task's results, for state files and the ledger; the NaN rule, always canonical there, is left out.
Json task_to_json(const Task& task);
/// The inverse. Throws std::invalid_argument or nlohmann::json::exception for anything else.
Task task_from_json(const Json& json);
Json operands_to_json(const OperandSet& operands);
OperandSet operands_from_json(const Task& task, const Json& json);
Json chunk_to_json(const Task& task, const verify::Chunk& chunk);
verify::Chunk chunk_from_json(const Json& json);

/// What a run is: task, inputs, reference.
Json question(const Verification& verification);
/// Which program computes it, by which functions.
std::string program(const Verification& verification);

/// A finished verification with machine, compiler, revision and date: an entry of the ledger, an element of --json.
Json entry_of(const Verification& verification);

/// Some lines for people.
std::string text_of(const Verification& verification, const Style& style = {});

/// "0x" and 16 digits, and back. Throws std::invalid_argument.
std::string hex_word(std::uint64_t word);
std::uint64_t parse_hex_word(const std::string& text);

// The ledger: what was verified, where, and the digest of the results, so that any machine can recompute a part of it.

/// A ledger file's entries; none where there is no such file. Throws std::invalid_argument with one line for a file
/// that is not a ledger.
Json read_ledger(const std::string& path);

/// Puts an entry into a ledger file, in place of the one on the same task, reference, inputs and machine if there is
/// one. Returns one line for each entry on the same task and inputs whose digest differs: one of the two is wrong.
std::vector<std::string> enter(const std::string& path, const Json& entry);

/// Recomputes some of an entry's chunks, `most` at most, spread evenly. Returns one line for each that differs.
/// Throws std::invalid_argument for an entry that cannot be read.
std::vector<std::string> recheck(const Json& entry, std::size_t most);

// The state file of `halfulp verify`: what is done already, so that a run can be interrupted and taken up again.

/// Fills in what a state file says of these verifications, which are one run's. A file that is not there says nothing.
/// Throws std::invalid_argument with one line, and changes nothing, for a file that is no state file, is damaged, or
/// belongs to another run, a newer version or another build.
void load_state(const std::string& path, std::vector<Verification>& run);

/// Writes it, whole or not at all.
void save_state(const std::string& path, const std::vector<Verification>& run);

}  // namespace halfulp::cli
