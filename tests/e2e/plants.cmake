# One planted defect a class, judged by this build's evaluator; scripts/plant.py alone draws more.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  add_test(NAME e2e_plants
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/plant.py --per-class 1
      --evaluator $<TARGET_FILE:sculler-eval> --cache ${PROJECT_BINARY_DIR}/e2e-cache)
  # 77: no nvcc here.
  set_tests_properties(e2e_plants PROPERTIES LABELS e2e TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
