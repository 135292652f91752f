# vrank_library(name SRCS ... DEPS ...): static host or guest-core library, alias vrank::x.
function(vrank_library name)
  cmake_parse_arguments(ARG "GUEST" "" "SRCS;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SRCS})
  target_include_directories(${name} PUBLIC "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}/generated")
  target_link_libraries(${name} PRIVATE vrank_warnings PUBLIC ${ARG_DEPS})
  if(ARG_GUEST)
    target_link_libraries(${name} PRIVATE vrank_guest)
  endif()
endfunction()

# vrank_guest_library(name SONAME libx.so.1 MAP x.map SRCS ... DEPS ...): a shared library
# for the training process, put into lib/vrank under its SONAME. It needs libc, libm and
# the loader only, and exports what its version script names.
function(vrank_guest_library name)
  cmake_parse_arguments(ARG "" "SONAME;MAP" "SRCS;DEPS" ${ARGN})
  get_filename_component(map "${ARG_MAP}" ABSOLUTE)
  add_library(${name} SHARED ${ARG_SRCS})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}/generated")
  target_link_libraries(${name} PRIVATE vrank_warnings vrank_guest ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES
    PREFIX "" SUFFIX "" OUTPUT_NAME "${ARG_SONAME}" NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY "${VRANK_GUEST_DIR}" LINK_DEPENDS "${map}")
  target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc -Wl,-z,defs
    -Wl,-soname,${ARG_SONAME} -Wl,--version-script=${map})
  install(TARGETS ${name} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/vrank")
endfunction()

# vrank_test(name SRCS ... DEPS ... LABELS ...): one GoogleTest program per folder. Its own
# files are a third of what there is to compile, and run for seconds.
function(vrank_test name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS;LABELS" ${ARGN})
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${name} ${ARG_SRCS})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}/generated")
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${name} PRIVATE vrank_warnings ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  gtest_discover_tests(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300 DISCOVERY_TIMEOUT 60)
endfunction()
