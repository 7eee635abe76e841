#include "headrace/quantity.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "headrace/error.h"

namespace headrace {
namespace {

TEST(Quantity, ReadsEveryUnit) {
  EXPECT_DOUBLE_EQ(parse_seconds("1.1 s", "x"), 1.1);
  EXPECT_DOUBLE_EQ(parse_seconds("250ms", "x"), 0.25);
  EXPECT_DOUBLE_EQ(parse_seconds("3 us", "x"), 3e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("7 ns", "x"), 7e-9);
  EXPECT_DOUBLE_EQ(parse_seconds("2 min", "x"), 120);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5 h", "x"), 5400);
  EXPECT_EQ(parse_bytes("48 KiB", "x"), 48u * 1024);
  EXPECT_EQ(parse_bytes("1.5 GiB", "x"), 3ull << 29);
  EXPECT_EQ(parse_bytes("450 MB", "x"), 450'000'000u);
  EXPECT_EQ(parse_bytes("18446744073709551615 B", "x"), UINT64_MAX);
  EXPECT_DOUBLE_EQ(parse_bytes_per_second("717 GB/s", "x"), 717e9);
}

TEST(Quantity, RefusesAndSaysWhereAndWhat) {
  for (const char* text :
       {"", "1.1", "s", "1.1 sec", "-1 s", "nan s", "inf s", "1e400 s", "1 s s", "1,5 s", " 1 s"}) {
    try {
      parse_seconds(text, "plan.yaml:7: stages.a.cost");
      ADD_FAILURE() << "accepted \"" << text << '"';
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      const std::string message = error.what();
      EXPECT_EQ(message.find("plan.yaml:7: stages.a.cost: \"" + std::string(text) + '"'), 0u)
          << message;
    }
  }
  for (const char* text : {"1", "1.5 B", "-1 B", "20000000000 TiB", "1 s", "1 KB/s"})
    EXPECT_THROW(parse_bytes(text, "x"), Error) << text;
  for (const char* text : {"1 GB", "1 /s", "1 s/s", "GB/s"})
    EXPECT_THROW(parse_bytes_per_second(text, "x"), Error) << text;
}

TEST(Quantity, FormattedTextReadsBack) {
  EXPECT_TRUE(rc::check("bytes exactly", [](std::uint64_t bytes) {
    const auto shifted = bytes >> *rc::gen::inRange(0, 63);
    RC_ASSERT(parse_bytes(format_bytes(shifted), "x") == shifted);
  }));
  EXPECT_TRUE(rc::check("seconds and rates to six digits", [] {
    const double value = std::exp(*rc::gen::inRange(-20'000, 20'000) / 1000.0);
    RC_ASSERT(std::abs(parse_seconds(format_seconds(value), "x") / value - 1) < 1e-5);
    RC_ASSERT(std::abs(parse_bytes_per_second(format_bytes_per_second(value), "x") / value - 1) <
              1e-5);
  }));
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_bytes(0), "0 B");
}

}  // namespace
}  // namespace headrace
