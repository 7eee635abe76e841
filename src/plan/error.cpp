#include "headrace/error.h"

namespace headrace {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::bad_input:
      return "bad input";
    case ErrorCode::io:
      return "input/output";
    case ErrorCode::resource:
      return "resource";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::hang:
      return "hang";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace headrace
