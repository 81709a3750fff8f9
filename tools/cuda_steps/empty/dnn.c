/* cuDNN that computes nothing: its descriptors open, and its graph interface is refused. */
#include "nothing.h"

#define REFUSED(name)                                                                                        \
  int name() { return 3000; } /* CUDNN_STATUS_NOT_SUPPORTED */
REFUSED(cudnnBackendCreateDescriptor);
REFUSED(cudnnBackendDestroyDescriptor);
REFUSED(cudnnBackendExecute);
REFUSED(cudnnBackendFinalize);
REFUSED(cudnnBackendGetAttribute);
REFUSED(cudnnBackendSetAttribute);
OPENED(cudnnCreate);
OPENED(cudnnCreateActivationDescriptor);
OPENED(cudnnCreateConvolutionDescriptor);
OPENED(cudnnCreateDropoutDescriptor);
OPENED(cudnnCreateFilterDescriptor);
OPENED(cudnnCreateLRNDescriptor);
OPENED(cudnnCreatePoolingDescriptor);
OPENED(cudnnCreateRNNDataDescriptor);
OPENED(cudnnCreateRNNDescriptor);
OPENED(cudnnCreateReduceTensorDescriptor);
OPENED(cudnnCreateTensorDescriptor);
LOGGED(cudnnReduceTensor);
LOGGED(cudnnSoftmaxForward);
NOTHING(cudnnActivationForward);
NOTHING(cudnnAddTensor);
NOTHING(cudnnBatchNormalizationForwardInference);
NOTHING(cudnnBatchNormalizationForwardTraining);
NOTHING(cudnnConvolutionBiasActivationForward);
NOTHING(cudnnConvolutionForward);
NOTHING(cudnnDeriveBNTensorDescriptor);
NOTHING(cudnnDestroy);
NOTHING(cudnnDestroyActivationDescriptor);
NOTHING(cudnnDestroyConvolutionDescriptor);
NOTHING(cudnnDestroyDropoutDescriptor);
NOTHING(cudnnDestroyFilterDescriptor);
NOTHING(cudnnDestroyLRNDescriptor);
NOTHING(cudnnDestroyPoolingDescriptor);
NOTHING(cudnnDestroyRNNDataDescriptor);
NOTHING(cudnnDestroyRNNDescriptor);
NOTHING(cudnnDestroyReduceTensorDescriptor);
NOTHING(cudnnDestroyTensorDescriptor);
NOTHING(cudnnDropoutGetStatesSize);
NOTHING(cudnnFindConvolutionForwardAlgorithmEx);
NOTHING(cudnnGetConvolutionForwardAlgorithm_v7);
NOTHING(cudnnGetConvolutionForwardWorkspaceSize);
NOTHING(cudnnGetRNNTempSpaceSizes);
NOTHING(cudnnGetRNNWeightParams);
NOTHING(cudnnGetStream);
NOTHING(cudnnGetTensorNdDescriptor);
NOTHING(cudnnLRNCrossChannelForward);
NOTHING(cudnnPoolingForward);
NOTHING(cudnnRNNForward);
NOTHING(cudnnSetActivationDescriptor);
NOTHING(cudnnSetConvolutionGroupCount);
NOTHING(cudnnSetConvolutionMathType);
NOTHING(cudnnSetConvolutionNdDescriptor);
NOTHING(cudnnSetDropoutDescriptor);
NOTHING(cudnnSetFilterNdDescriptor);
NOTHING(cudnnSetLRNDescriptor);
NOTHING(cudnnSetPoolingNdDescriptor);
NOTHING(cudnnSetRNNDataDescriptor);
NOTHING(cudnnSetRNNDescriptor_v8);
NOTHING(cudnnSetReduceTensorDescriptor);
NOTHING(cudnnSetStream);
NOTHING(cudnnSetTensorNdDescriptor);
size_t cudnnGetCudartVersion(void) { return 13000; }
const char *cudnnGetErrorString(int s) { return "OK"; }
void cudnnGetLastErrorString(char *m, size_t n) {
  if (n) m[0] = 0;
}
int cudnnGetReductionIndicesSize(void *h, void *r, void *a, void *c, size_t *n) {
  *n = 256;
  return 0;
}
int cudnnGetReductionWorkspaceSize(void *h, void *r, void *a, void *c, size_t *n) {
  *n = 256;
  return 0;
}
size_t cudnnGetVersion(void) { return 91400; }
