# Where things are put, the same in the build tree and after `cmake --install`:
#   bin/vrank            the program
#   lib/vrank/           guest libraries under their SONAMEs
#   share/vrank/         GPU and cluster descriptions
include(GNUInstallDirs)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/archive")
set(VRANK_GUEST_DIR "${CMAKE_BINARY_DIR}/lib/vrank")
set(VRANK_SHARE_DIR "${CMAKE_BINARY_DIR}/share/vrank")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
find_program(VRANK_CCACHE ccache)
if(VRANK_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER "${VRANK_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${VRANK_CCACHE}")
endif()
