#include "headrace/position.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "headrace/error.h"

namespace headrace {
namespace {

TEST(Position, ReadsBackWhatWasWritten) {
  EXPECT_TRUE(rc::check([](std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
    const Position position{"9f86d081", a, b, c, d, a ^ b, c ^ d};
    const auto text = nlohmann::json(position).dump();
    RC_ASSERT(nlohmann::json::parse(text).get<Position>() == position);
  }));
}

// A source that packs: rows of `length` tokens, filled with one document after another; a document
// that does not fit goes on in the next row. Only the last row is shorter.
struct Packing {
  std::vector<std::vector<int>> documents;
  std::size_t length;
  Position at;

  std::vector<int> next() {
    std::vector<int> row;
    while (row.size() < length && at.row < documents.size()) {
      const std::vector<int>& document = documents[at.row];
      const std::size_t left = document.size() - at.carry_tokens;
      const std::size_t taken = std::min(left, length - row.size());
      const auto from = document.begin() + static_cast<std::ptrdiff_t>(at.carry_tokens);
      row.insert(row.end(), from, from + static_cast<std::ptrdiff_t>(taken));
      at.carry_tokens = taken == left ? 0 : at.carry_tokens + taken;
      at.row += taken == left;
    }
    ++at.batch;
    return row;
  }
};

// Runs to the end, through JSON and a new source every `rows_a_run` rows.
std::vector<std::vector<int>> packed(const Packing& start, std::size_t rows_a_run,
                                     bool keeps_the_carry = true) {
  std::vector<std::vector<int>> rows;
  for (Packing source = start; source.at.row < start.documents.size();) {
    for (std::size_t i = 0; i < rows_a_run && source.at.row < start.documents.size(); ++i)
      rows.push_back(source.next());
    const auto text = nlohmann::json(source.at).dump();
    source = start;
    source.at = nlohmann::json::parse(text).get<Position>();
    if (!keeps_the_carry) source.at.carry_tokens = 0;
  }
  return rows;
}

// llm-foundry PR 1277: a resume that passed over the packing repeated data. With the carry-over
// in the position packed rows resume exactly, wherever they are cut, however often.
TEST(Position, CarriesADocumentOverARow) {
  EXPECT_TRUE(rc::check([] {
    const auto lengths =
        *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(1, 20));
    Packing start{.length = *rc::gen::inRange<std::size_t>(1, 9)};
    for (int token = 0; const std::size_t length : lengths)
      for (start.documents.emplace_back(); start.documents.back().size() < length;)
        start.documents.back().push_back(token++);
    const auto whole = packed(start, SIZE_MAX);
    RC_ASSERT(packed(start, *rc::gen::inRange<std::size_t>(1, 5)) == whole);
  }));
  const Packing start{.documents = {{1, 2, 3}, {4, 5, 6, 7}, {8}}, .length = 4};
  EXPECT_EQ(packed(start, 1), (std::vector<std::vector<int>>{{1, 2, 3, 4}, {5, 6, 7, 8}}));
  EXPECT_NE(packed(start, 1, /*keeps_the_carry=*/false), packed(start, 1));
}

TEST(Position, NamesTheKeyThatIsMissingOrIllTyped) {
  const nlohmann::json whole = Position{"m", 1, 2, 3, 4, 5, 6};
  for (const auto& [key, value] : whole.items()) {
    for (const nlohmann::json& wrong :
         {nlohmann::json(), nlohmann::json(-1), nlohmann::json(1.5)}) {
      nlohmann::json damaged = whole;
      if (wrong.is_null())
        damaged.erase(key);
      else
        damaged[key] = wrong;
      try {
        damaged.get<Position>();
        ADD_FAILURE() << "accepted " << damaged;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace headrace
