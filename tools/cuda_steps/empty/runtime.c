/* A CUDA runtime and driver that run nothing: the device's memory is the host's, copies are real, and
   kernels are named in the file of EMPTY_CUDA_LOG. It claims one device of compute capability 9.0. */
#define _GNU_SOURCE
#include <driver_types.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct {
  unsigned x, y, z;
} d3;
static FILE *out;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static int capturing = 0;
static void note(const char *f, ...) {
  if (!out) {
    const char *p = getenv("EMPTY_CUDA_LOG");
    if (!p) return;
    out = fopen(p, "a");
    if (!out) return;
    setvbuf(out, NULL, _IOFBF, 1 << 16);
  }
  va_list a;
  va_start(a, f);
  pthread_mutex_lock(&mu);
  vfprintf(out, f, a);
  fputc('\n', out);
  pthread_mutex_unlock(&mu);
  va_end(a);
}
void empty_log(const char *t) { note("call %s", t); }
void empty_mark(const char *t) {
  note("# %s", t);
  if (out) fflush(out);
}
#define SM 90
#define SHARED_MEMORY 232448 /* bytes a block may take */
/* device memory */
#define SLOTS 65536
static struct {
  char *p;
  size_t n;
} mem[SLOTS];
static int used = 0;
static size_t total = 0;
static void *get(size_t n, int device) {
  void *p;
  size_t m = (n + 511) / 256 * 256;
  if (posix_memalign(&p, 4096, m)) return 0;
  memset(p, 0, m);
  if (device) {
    pthread_mutex_lock(&mu);
    int i;
    for (i = 0; i < used && mem[i].p; i++);
    if (i < SLOTS) {
      mem[i].p = p;
      mem[i].n = m;
      if (i == used) used++;
      total += m;
    }
    pthread_mutex_unlock(&mu);
  }
  return p;
}
static int where(const void *q) {
  int r = 0;
  pthread_mutex_lock(&mu);
  for (int i = 0; i < used; i++)
    if (mem[i].p && (char *)q >= mem[i].p && (char *)q < mem[i].p + mem[i].n) {
      r = 1;
      break;
    }
  pthread_mutex_unlock(&mu);
  return r;
}
static void put(void *q) {
  if (!q) return;
  pthread_mutex_lock(&mu);
  for (int i = 0; i < used; i++)
    if (mem[i].p == q) {
      mem[i].p = 0;
      total -= mem[i].n;
      break;
    }
  pthread_mutex_unlock(&mu);
  free(q);
}
cudaError_t cudaMalloc(void **p, size_t n) {
  if (capturing) note("! cudaMalloc in capture");
  note("malloc %zu", n);
  *p = n ? get(n, 1) : 0;
  return 0;
}
cudaError_t cudaMallocFromPoolAsync(void **p, size_t n, void *pool, void *s) {
  note("mallocasync %zu", n);
  *p = n ? get(n, 1) : 0;
  return 0;
}
cudaError_t cudaMallocAsync(void **p, size_t n, void *s) {
  *p = n ? get(n, 1) : 0;
  return 0;
}
cudaError_t cudaMallocHost(void **p, size_t n) {
  *p = get(n, 0);
  return 0;
}
cudaError_t cudaHostAlloc(void **p, size_t n, unsigned f) {
  *p = get(n, 0);
  return 0;
}
cudaError_t cudaFree(void *p) {
  put(p);
  return 0;
}
cudaError_t cudaFreeAsync(void *p, void *s) {
  put(p);
  return 0;
}
cudaError_t cudaFreeHost(void *p) {
  free(p);
  return 0;
}
cudaError_t cudaMemGetInfo(size_t *f, size_t *t) {
  *t = 80ull << 30;
  *f = 70ull << 30;
  return 0;
}
static const char *way(const void *d, const void *s) {
  int a = where(d), b = where(s);
  return a ? (b ? "D2D" : "H2D") : (b ? "D2H" : "H2H");
}
/* What kernels would have computed: sizes that add up to the count of 1, if they are read as such. */
static void sized(void *d, size_t n) {
  if (n % 8 || n < 16) return;
  memset(d, 0, n);
  ((long long *)d)[n / 8 - 1] = 1;
}
cudaError_t cudaMemcpy(void *d, const void *s, size_t n, int k) {
  if (capturing) note("! cudaMemcpy in capture");
  note("copy %s %zu sync", way(d, s), n);
  memcpy(d, s, n);
  if (!where(d) && where(s)) sized(d, n);
  return 0;
}
cudaError_t cudaMemcpyAsync(void *d, const void *s, size_t n, int k, void *st) {
  const char *w = way(d, s);
  if (capturing && (w[0] == 72 || w[2] == 72)) note("! copy %s %zu in capture", w, n);
  note("copy %s %zu", w, n);
  if (n == 4 && w[2] == 'H' && w[0] == 'D') *(int *)d = 1;
  else memmove(d, s, n);
  if (w[2] == 'H' && w[0] == 'D') sized(d, n);
  return 0;
}
cudaError_t cudaMemcpy2DAsync(void *d, size_t dp, const void *s, size_t sp, size_t w, size_t h, int k,
                              void *st) {
  note("copy2d %s %zu", way(d, s), w * h);
  for (size_t i = 0; i < h; i++) memmove((char *)d + i * dp, (char *)s + i * sp, w);
  return 0;
}
cudaError_t cudaMemcpyFromSymbol(void *d, const void *s, size_t n, size_t o, int k) {
  memset(d, 0, n);
  return 0;
}
cudaError_t cudaMemset(void *p, int v, size_t n) {
  memset(p, v, n);
  return 0;
}
cudaError_t cudaMemsetAsync(void *p, int v, size_t n, void *s) {
  note("memset %zu", n);
  memset(p, v, n);
  return 0;
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p) {
  memset(a, 0, sizeof *a);
  int w = where(p);
  a->type = w ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  a->devicePointer = w ? (void *)p : 0;
  a->hostPointer = w ? 0 : (void *)p;
  return 0;
}
/* device */
cudaError_t cudaGetDeviceCount(int *n) {
  *n = 1;
  return 0;
}
cudaError_t cudaGetDevice(int *n) {
  *n = 0;
  return 0;
}
cudaError_t cudaSetDevice(int n) { return 0; }
cudaError_t cudaDriverGetVersion(int *n) {
  *n = 13000;
  return 0;
}
cudaError_t cudaRuntimeGetVersion(int *n) {
  *n = 13000;
  return 0;
}
cudaError_t cudaDeviceSynchronize(void) {
  note("devicesync");
  return 0;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int d) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "empty");
  p->totalGlobalMem = 80ull << 30;
  p->sharedMemPerBlock = 49152;
  p->regsPerBlock = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->totalConstMem = 65536;
  p->major = SM / 10;
  p->minor = SM % 10;
  p->textureAlignment = 512;
  p->multiProcessorCount = 132;
  p->concurrentKernels = 1;
  p->asyncEngineCount = 3;
  p->unifiedAddressing = 1;
  p->l2CacheSize = 50 << 20;
  p->maxThreadsPerMultiProcessor = 2048;
  p->sharedMemPerMultiprocessor = SHARED_MEMORY + 1024;
  p->regsPerMultiprocessor = 65536;
  p->cooperativeLaunch = 1;
  p->sharedMemPerBlockOptin = SHARED_MEMORY;
  p->maxBlocksPerMultiProcessor = 32;
  p->reservedSharedMemPerBlock = 1024;
  p->memoryPoolsSupported = 1;
  p->memoryBusWidth = 5120;
  return 0;
}
cudaError_t cudaDeviceGetAttribute(int *v, int a, int d) {
  switch (a) {
  case 1: *v = 1024; break;
  case 2:
  case 3: *v = 1024; break;
  case 4: *v = 64; break;
  case 5: *v = 2147483647; break;
  case 6:
  case 7: *v = 65535; break;
  case 8: *v = 49152; break;
  case 10: *v = 32; break;
  case 12: *v = 65536; break;
  case 16: *v = 132; break;
  case 31: *v = 1; break;
  case 38: *v = 50 << 20; break;
  case 39: *v = 2048; break;
  case 75: *v = SM / 10; break;
  case 76: *v = SM % 10; break;
  case 81: *v = SHARED_MEMORY + 1024; break;
  case 82: *v = 65536; break;
  case 95: *v = 1; break;
  case 97: *v = SHARED_MEMORY; break;
  case 106: *v = 32; break;
  case 111: *v = 1024; break;
  case 115: *v = 1; break;
  default: *v = 0;
  }
  return 0;
}
/* streams, events, graphs */
cudaError_t cudaStreamCreate(void **s) {
  *s = malloc(8);
  return 0;
}
cudaError_t cudaStreamCreateWithFlags(void **s, unsigned f) {
  *s = malloc(8);
  return 0;
}
cudaError_t cudaStreamDestroy(void *s) { return 0; }
cudaError_t cudaStreamSynchronize(void *s) {
  if (capturing) note("! cudaStreamSynchronize in capture");
  note("streamsync");
  return 0;
}
cudaError_t cudaStreamWaitEvent(void *s, void *e, unsigned f) { return 0; }
cudaError_t cudaStreamBeginCapture(void *s, int m) {
  capturing = 1;
  note("capture begin");
  return 0;
}
cudaError_t cudaStreamEndCapture(void *s, void **g) {
  capturing = 0;
  *g = malloc(8);
  note("capture end");
  return 0;
}
cudaError_t cudaStreamIsCapturing(void *s, int *v) {
  *v = capturing;
  return 0;
}
cudaError_t cudaGraphInstantiate(void **e, void *g, unsigned long long f) {
  *e = malloc(8);
  return 0;
}
cudaError_t cudaGraphLaunch(void *e, void *s) {
  note("graph launch");
  return 0;
}
cudaError_t cudaGraphDestroy(void *g) { return 0; }
cudaError_t cudaGraphExecDestroy(void *g) { return 0; }
cudaError_t cudaEventCreate(void **e) {
  *e = malloc(8);
  return 0;
}
cudaError_t cudaEventCreateWithFlags(void **e, unsigned f) {
  *e = malloc(8);
  return 0;
}
cudaError_t cudaEventDestroy(void *e) { return 0; }
cudaError_t cudaEventElapsedTime(float *t, void *a, void *b) {
  *t = 1;
  return 0;
}
cudaError_t cudaEventRecord(void *e, void *s) { return 0; }
cudaError_t cudaEventRecordWithFlags(void *e, void *s, unsigned f) { return 0; }
cudaError_t cudaEventSynchronize(void *e) {
  note("eventsync");
  return 0;
}
cudaError_t cudaEventQuery(void *e) { return 0; }
cudaError_t cudaLaunchHostFunc(void *s, void (*f)(void *), void *u) {
  f(u);
  return 0;
}
const char *cudaGetErrorName(int e) { return "cudaSuccess"; }
const char *cudaGetErrorString(int e) { return "none"; }
cudaError_t cudaGetLastError(void) { return 0; }
cudaError_t cudaPeekAtLastError(void) { return 0; }
/* pools, libraries */
cudaError_t cudaMemPoolCreate(void **p, const void *a) {
  *p = malloc(8);
  return 0;
}
cudaError_t cudaMemPoolDestroy(void *p) { return 0; }
cudaError_t cudaMemPoolGetAttribute(void *p, int a, void *v) {
  *(uint64_t *)v = 0;
  return 0;
}
cudaError_t cudaMemPoolSetAttribute(void *p, int a, void *v) { return 0; }
cudaError_t cudaMemPoolTrimTo(void *p, size_t n) { return 0; }
cudaError_t cudaLibraryLoadData(void **l, const void *c, void *a, void *b, unsigned n, void *d, void *e,
                                unsigned m) {
  *l = malloc(8);
  return 0;
}
cudaError_t cudaLibraryUnload(void *l) { return 0; }
cudaError_t cudaLibraryGetKernel(void **k, void *l, const char *name) {
  *k = strdup(name);
  return 0;
}
cudaError_t cudaKernelSetAttributeForDevice(void *k, int a, int v, int d) { return 0; }
static int nothing(void) { return 0; }
cudaError_t cudaGetDriverEntryPointByVersion(const char *n, void **f, unsigned v, unsigned long long fl,
                                             void *r) {
  *f = (void *)nothing;
  if (r) *(int *)r = 0;
  return 0;
}
/* kernels */
typedef struct {
  const void *host;
  const char *name;
} fn;
static fn *fns;
static int nf, cap;
void **__cudaRegisterFatBinary(void *f) {
  static void *x[2];
  return x;
}
void __cudaRegisterFatBinaryEnd(void **h) {}
void __cudaUnregisterFatBinary(void **h) {}
void __cudaRegisterVar(void **h, char *hv, char *dv, const char *n, int e, size_t s, int c, int g) {}
static int cmp(const void *a, const void *b) {
  const fn *x = a, *y = b;
  return x->host < y->host ? -1 : x->host > y->host;
}
static int sorted;
void __cudaRegisterFunction(void **h, const char *hf, char *df, const char *name, int t, void *a, void *b,
                            void *c, void *d, int *w) {
  if (nf == cap) {
    cap = cap ? cap * 2 : 16384;
    fns = realloc(fns, cap * sizeof *fns);
  }
  fns[nf].host = hf;
  fns[nf++].name = name;
  sorted = 0;
}
static const char *named(const void *f) {
  if (!sorted) {
    qsort(fns, nf, sizeof *fns, cmp);
    sorted = 1;
  }
  fn k = {f, 0};
  fn *r = bsearch(&k, fns, nf, sizeof *fns, cmp);
  return r ? r->name : "?";
}
static void launched(const void *f, d3 g, d3 b) {
  note("kernel %u,%u,%u %u %s", g.x, g.y, g.z, b.x * b.y * b.z, named(f));
}
static __thread struct {
  d3 g, b;
  size_t s;
  void *st;
} conf[16];
static __thread int depth;
unsigned __cudaPushCallConfiguration(d3 g, d3 b, size_t s, void *st) {
  conf[depth].g = g;
  conf[depth].b = b;
  conf[depth].s = s;
  conf[depth].st = st;
  depth++;
  return 0;
}
cudaError_t __cudaPopCallConfiguration(d3 *g, d3 *b, size_t *s, void **st) {
  depth--;
  *g = conf[depth].g;
  *b = conf[depth].b;
  *s = conf[depth].s;
  *st = conf[depth].st;
  return 0;
}
cudaError_t __cudaGetKernel(const void **k, const void *f) {
  *k = f;
  return 0;
}
static int checked(const void *f, size_t shmem) {
  if (shmem > (size_t)SHARED_MEMORY) note("! shared memory %zu of %d: %s", shmem, SHARED_MEMORY, named(f));
  return 0;
}
cudaError_t __cudaLaunchKernel(const void *k, d3 g, d3 b, void **a, size_t s, void *st) {
  checked(k, s);
  launched(k, g, b);
  return 0;
}
cudaError_t cudaLaunchKernel(const void *k, d3 g, d3 b, void **a, size_t s, void *st) {
  checked(k, s);
  launched(k, g, b);
  return 0;
}
cudaError_t cudaLaunchCooperativeKernel(const void *k, d3 g, d3 b, void **a, size_t s, void *st) {
  launched(k, g, b);
  return 0;
}
cudaError_t cudaLaunchKernelExC(const void *c, const void *f, void **a) {
  const d3 *d = c;
  launched(f, d[0], d[1]);
  return 0;
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *f) {
  memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = 1024;
  a->numRegs = 32;
  a->binaryVersion = SM;
  a->ptxVersion = SM;
  return 0;
}
cudaError_t cudaFuncSetAttribute(const void *f, int a, int v) {
  if (a == cudaFuncAttributeMaxDynamicSharedMemorySize && v > SHARED_MEMORY)
    note("! wants shared memory %d of %d: %s", v, SHARED_MEMORY, named(f));
  return 0;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *f, int b, size_t s,
                                                                   unsigned fl) {
  *n = 2;
  return 0;
}
