#include "headrace/error.h"

#include <new>

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

Error caught(const std::string& context) {
  try {
    throw;
  } catch (const Error& error) {
    return error.in(context);
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::resource, context + ": out of memory");
  } catch (const std::exception& error) {
    return Error(ErrorCode::internal, context + ": " + error.what());
  } catch (...) {
    return Error(ErrorCode::internal, context + ": an exception that is no std::exception");
  }
}

}  // namespace headrace
