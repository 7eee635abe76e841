#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>

#include "data/fingerprint.h"
#include "data/input_file.h"
#include "headrace/error.h"
#include "headrace/manifest.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

// Sorted, lower case.
constexpr auto kTextExtensions = std::to_array<std::string_view>({
    ".adoc",  ".asm",    ".awk",   ".bash", ".bat",  ".bib",  ".c",    ".cc",    ".cfg", ".clj",
    ".cmake", ".conf",   ".cpp",   ".cs",   ".css",  ".csv",  ".cu",   ".cuh",   ".cxx", ".d",
    ".dart",  ".el",     ".erl",   ".ex",   ".exs",  ".f",    ".f90",  ".fs",    ".go",  ".h",
    ".hh",    ".hpp",    ".hs",    ".htm",  ".html", ".hxx",  ".ini",  ".java",  ".jl",  ".js",
    ".json",  ".jsonl",  ".jsx",   ".kt",   ".lisp", ".lua",  ".m",    ".md",    ".mjs", ".ml",
    ".mli",   ".nim",    ".org",   ".pas",  ".php",  ".pl",   ".pm",   ".proto", ".ps1", ".py",
    ".pyi",   ".pyx",    ".r",     ".rb",   ".rs",   ".rst",  ".s",    ".scala", ".scm", ".sh",
    ".sql",   ".svelte", ".swift", ".tcl",  ".tex",  ".text", ".toml", ".ts",    ".tsv", ".tsx",
    ".txt",   ".v",      ".vhd",   ".vim",  ".vue",  ".xml",  ".yaml", ".yml",   ".zig",
});
static_assert(std::ranges::is_sorted(kTextExtensions));

constexpr std::uint64_t kNulSearched = 8 << 10;  // bytes; what git and grep call a binary file

struct Candidate {
  std::string path, relative;
};

bool has_text_extension(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return std::ranges::binary_search(kTextExtensions, std::string_view(extension));
}

bool is_passed_over(const std::string& folder) {
  static const std::set<std::string, std::less<>> names = {
      "site-packages", "dist-packages", "__pycache__", "node_modules", "test", "tests"};
  return folder.starts_with('.') || names.contains(folder) || folder.ends_with("_test") ||
         folder.ends_with("_tests");
}

// Sorted by relative path. Links to folders are not followed, so that no loop of them can be.
std::vector<Candidate> walk(const std::string& folder) {
  std::vector<Candidate> found;
  try {
    for (fs::recursive_directory_iterator it(folder), end; it != end; ++it) {
      std::error_code broken_link;  // is neither a folder nor a file
      if (it->is_directory(broken_link) && is_passed_over(it->path().filename().string()))
        it.disable_recursion_pending();
      else if (has_text_extension(it->path()) && it->is_regular_file(broken_link))
        found.push_back(
            {it->path().string(), it->path().lexically_relative(folder).generic_string()});
    }
  } catch (const fs::filesystem_error& error) {
    fail(ErrorCode::bad_input, "--data {}: cannot be walked: {}", folder, error.what());
  }
  std::ranges::sort(found, {}, &Candidate::relative);
  return found;
}

bool looks_binary(const InputFile& file) {
  std::string head;
  file.read(0, std::min(kNulSearched, file.size()), head);
  return head.find('\0') != std::string::npos;
}

}  // namespace

Manifest scan(const std::vector<std::string>& paths, bool verify_full) {
  Manifest manifest;
  std::set<std::pair<dev_t, ino_t>> seen;
  const auto take = [&](const InputFile& file, const std::string& relative) {
    if (!seen.insert(file.identity()).second) return;
    ManifestFile entry{.path = file.path(), .relative = relative};
    fingerprint(file, verify_full, entry);
    manifest.files.push_back(std::move(entry));
  };

  for (const std::string& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status))
      fail(ErrorCode::bad_input, "--data {}: does not exist or cannot be reached ({})", path,
           error.message());
    if (fs::is_directory(status)) {
      bool any = false;
      for (const Candidate& candidate : walk(path)) {
        const InputFile file(candidate.path);
        if (looks_binary(file)) continue;
        any = true;
        take(file, candidate.relative);
      }
      if (!any)
        fail(ErrorCode::bad_input,
             "--data {}: no text in this folder (files with an extension such as .txt, .md, .py or "
             ".jsonl and no "
             "NUL byte, outside hidden and test folders); name the files to take others",
             path);
    } else {
      const InputFile file(path);
      if (!file.is_regular())
        fail(ErrorCode::bad_input, "--data {}: is neither a file nor a folder", path);
      if (looks_binary(file))
        fail(ErrorCode::bad_input, "--data {}: is not text (a NUL byte in its first 8 KiB)", path);
      take(file, fs::path(path).filename().string());
    }
  }
  std::ranges::stable_sort(manifest.files, {}, &ManifestFile::relative);
  if (std::ranges::all_of(manifest.files, [](const ManifestFile& file) { return file.size == 0; }))
    fail(ErrorCode::bad_input, "--data {}: every file is empty; name files or folders with text",
         fmt::join(paths, " "));
  return manifest;
}

}  // namespace headrace
