// How the program ends when a call fails.
//
// At once, without destructors and exit handlers: after a device error both may block,
// and the launcher has to learn of it.

#ifndef EXAMPLES_GPT_TRAINER_DEVICE_CHECKS_H_
#define EXAMPLES_GPT_TRAINER_DEVICE_CHECKS_H_

namespace gpt {

[[noreturn]] void Fail(const char* file, int line, const char* call, const char* text);

}  // namespace gpt

// Checks a condition that only a mistake in this program can break.
#define GPT_CHECK(condition)                                        \
  do {                                                              \
    if (!(condition)) [[unlikely]] {                                \
      ::gpt::Fail(__FILE__, __LINE__, #condition, "does not hold"); \
    }                                                               \
  } while (false)

#endif  // EXAMPLES_GPT_TRAINER_DEVICE_CHECKS_H_
