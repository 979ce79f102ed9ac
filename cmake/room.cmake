# halfulp_room(NAME SOURCES source... [PUBLIC library...] [PRIVATE library...] [SYSTEM directory...])
#
# A room of the house: the static library halfulp_NAME of this folder's sources. It links the rooms that it may include,
# which come before it in the root's CMakeLists.txt.
function(halfulp_room name)
  cmake_parse_arguments(room "" "" "SOURCES;PUBLIC;PRIVATE;SYSTEM" ${ARGN})
  add_library(halfulp_${name} STATIC ${room_SOURCES})
  target_link_libraries(halfulp_${name} PUBLIC ${room_PUBLIC} PRIVATE halfulp_options ${room_PRIVATE})
  target_include_directories(halfulp_${name} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
  if(room_SYSTEM)
    target_include_directories(halfulp_${name} SYSTEM PRIVATE ${room_SYSTEM})
  endif()
  set_target_properties(halfulp_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# halfulp_embed(FILE VARIABLE NAMESPACE): puts the text of FILE into the generated header halfulp_VARIABLE.hpp, as the
# constant NAMESPACE::VARIABLE.
function(halfulp_embed file variable namespace)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/generated/halfulp_${variable}.hpp @ONLY CONTENT
"// Made from @path@.
#pragma once

namespace @namespace@ {
inline constexpr const char* @variable@ = R\"text(@text@)text\";
}  // namespace @namespace@
")
endfunction()

# Sources with loops over elements that must be vectorised, which gcc does at -O3.
function(halfulp_vectorise)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "$<$<NOT:$<CONFIG:Debug>>:-O3>")
endfunction()
