/* cuBLASLt that computes nothing. */
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
OPENED(cublasLtCreate);
OPENED(cublasLtMatmulDescCreate);
OPENED(cublasLtMatmulPreferenceCreate);
OPENED(cublasLtMatrixLayoutCreate);
OPENED(cublasLtMatrixTransformDescCreate);
LOGGED(cublasLtMatmul);
LOGGED(cublasLtMatrixTransform);
NOTHING(cublasLtMatmulAlgoConfigSetAttribute);
NOTHING(cublasLtMatmulAlgoInit);
NOTHING(cublasLtMatmulDescDestroy);
NOTHING(cublasLtMatmulDescSetAttribute);
NOTHING(cublasLtMatmulPreferenceDestroy);
NOTHING(cublasLtMatmulPreferenceSetAttribute);
NOTHING(cublasLtMatrixLayoutDestroy);
NOTHING(cublasLtMatrixLayoutSetAttribute);
NOTHING(cublasLtMatrixTransformDescDestroy);
int cublasLtDestroy(void *h) { return 0; }
int cublasLtMatmulAlgoGetHeuristic(void *h, void *d, void *a, void *b, void *c, void *e, void *p, int want,
                                   void *res, int *got) {
  memset(res, 0, 96);
  *got = 1;
  return 0;
}
