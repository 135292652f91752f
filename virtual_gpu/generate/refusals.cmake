# vrank_refusing_library(name SYMBOLS x.symbols SRCS ... DEPS ...): a guest library that
# exports every name of the symbol list. SRCS are the models (strong definitions); every
# other name is generated and refuses by name. The models must be given as sources or
# objects: a name in an archive would lose against its weak twin.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(VRANK_GENERATE "${CMAKE_CURRENT_LIST_DIR}")

function(vrank_refusing_library name)
  cmake_parse_arguments(ARG "" "SYMBOLS" "SRCS;DEPS" ${ARGN})
  get_filename_component(list "${ARG_SYMBOLS}" ABSOLUTE)
  file(STRINGS "${list}" soname REGEX "^@soname ")
  string(REGEX REPLACE "^@soname +" "" soname "${soname}")
  set(made "${CMAKE_CURRENT_BINARY_DIR}/${soname}")
  add_custom_command(OUTPUT "${made}.refused.cc" "${made}.map"
    COMMAND Python3::Interpreter "${VRANK_GENERATE}/refusals.py"
            "${list}" "${made}.refused.cc" "${made}.map"
    DEPENDS "${list}" "${VRANK_GENERATE}/refusals.py" "${VRANK_GENERATE}/symbol_list.py"
    COMMENT "Generating the refusals of ${soname}" VERBATIM)
  vrank_guest_library(${name} SONAME ${soname} MAP "${made}.map"
    SRCS ${ARG_SRCS} "${made}.refused.cc" DEPS ${ARG_DEPS})
endfunction()
