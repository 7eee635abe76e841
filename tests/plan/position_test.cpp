#include "headrace/position.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <nlohmann/json.hpp>

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
