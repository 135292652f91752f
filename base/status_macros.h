// RETURN_IF_ERROR and ASSIGN_OR_RETURN for absl::Status.

#ifndef VRANK_BASE_STATUS_MACROS_H_
#define VRANK_BASE_STATUS_MACROS_H_

#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#define RETURN_IF_ERROR(expression)           \
  do {                                        \
    absl::Status vrank_status = (expression); \
    if (!vrank_status.ok())                   \
      return vrank_status;                    \
  } while (false)

#define VRANK_CONCAT_INNER(a, b) a##b
#define VRANK_CONCAT(a, b) VRANK_CONCAT_INNER(a, b)

#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_IMPL(VRANK_CONCAT(vrank_statusor_, __LINE__), target, expression)
#define ASSIGN_OR_RETURN_IMPL(temporary, target, expression) \
  auto temporary = (expression);                             \
  if (!temporary.ok())                                       \
    return std::move(temporary).status();                    \
  target = std::move(temporary).value()

#endif  // VRANK_BASE_STATUS_MACROS_H_
