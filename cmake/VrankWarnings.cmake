# vrank_warnings: every target of ours. vrank_guest: code inside the training process.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(VRANK_SANITIZE "" CACHE STRING "Sanitizers for host code and unit tests: address,undefined or thread")

add_library(vrank_warnings INTERFACE)
target_compile_options(vrank_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Werror -Wno-error=deprecated-declarations>)
if(VRANK_SANITIZE)
  # Guest code has no RTTI, which the vptr check needs. Any report ends the program, so that
  # a run of tests fails by it.
  target_compile_options(vrank_warnings INTERFACE -fsanitize=${VRANK_SANITIZE}
    -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(vrank_warnings INTERFACE -fsanitize=${VRANK_SANITIZE})
endif()

# No exceptions, no RTTI, nothing exported but what is marked, libstdc++ inside.
add_library(vrank_guest INTERFACE)
target_compile_options(vrank_guest INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -fvisibility=hidden -fvisibility-inlines-hidden>)
