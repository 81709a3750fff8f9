/* Functions of a library that computes nothing. */
#include <stdlib.h>
#include <string.h>

void empty_log(const char *text);

#define NOTHING(name)                                                                                        \
  int name() { return 0; }
#define LOGGED(name)                                                                                         \
  int name() {                                                                                               \
    empty_log(#name);                                                                                        \
    return 0;                                                                                                \
  }
#define OPENED(name)                                                                                         \
  int name(void **handle) {                                                                                  \
    *handle = calloc(1, 512);                                                                                \
    return 0;                                                                                                \
  }
