# Builds tests/consumer against halfulp, MODE = installed or subdirectory, in the scratch folder WORK, and runs it.
file(REMOVE_RECURSE ${WORK})
include(${CMAKE_CURRENT_LIST_DIR}/step.cmake)

# As a subdirectory all of halfulp is compiled again: for the smallest instruction set, and quickly.
set(use -DHALFULP_SOURCE=${SOURCE} -DCMAKE_BUILD_TYPE=Debug
  "-DHALFULP_WITHOUT_VECTORS=HWY_SSSE3|HWY_SSE4|HWY_AVX2|HWY_AVX3")
if(MODE STREQUAL installed)
  step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
  set(use -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_BUILD_TYPE=Release)
endif()
# The skeleton of docs/how-to/use-in-cpp.md.
if(MODE STREQUAL installed)
  step(${CMAKE_COMMAND} -S ${SOURCE}/docs/how-to/skeletons/library -B ${WORK}/skeleton -G Ninja
    -DCMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=${FLAGS}" ${use})
  step(${CMAKE_COMMAND} --build ${WORK}/skeleton)
  step(${WORK}/skeleton/mine)
  if(NOT output STREQUAL "2048\n2d 1\n")
    message(FATAL_ERROR "the skeleton printed: ${output}")
  endif()
endif()
step(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${WORK}/build -G Ninja
  -DCMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=${FLAGS}" ${use})
step(${CMAKE_COMMAND} --build ${WORK}/build --target consumer)
step(${WORK}/build/consumer)
if(NOT output STREQUAL "2048 60000 0\n")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()
