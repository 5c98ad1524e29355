/* The public header is C: a buffer from open to close. Returns how many of the second minibatch's
 * three rows hit. */
#include "sculler/steer.h"

int64_t sculler_test_steer_from_c(void);

int64_t sculler_test_steer_from_c(void) {
  sculler_steer_settings settings = {0};
  sculler_steer_plan plan;
  const uint64_t ids[] = {1, 2, 3};
  char error[80];
  sculler_steer *steer;
  settings.size = sizeof settings;
  settings.capacity = 2;
  steer = sculler_steer_open(&settings, error, sizeof error);
  if (steer == 0) return -1;
  sculler_steer_minibatch(steer, ids, 3, &plan);
  if (sculler_steer_minibatch(steer, ids, 3, &plan) != SCULLER_STEER_OK) return -2;
  sculler_steer_close(steer);
  return (int64_t)(plan.ids - plan.n_missed);
}
