// An operator "Twice" of domain "test" for the tests: its input times two.
#include "onnxruntime_c_api.h"

static const OrtApi *api;

static void *create(const OrtCustomOp *op, const OrtApi *with, const OrtKernelInfo *info) {
	(void)op, (void)with, (void)info;
	return (void *)&api;
}
static const char *name(const OrtCustomOp *op) { (void)op; return "Twice"; }
static const char *provider(const OrtCustomOp *op) { (void)op; return 0; }
static ONNXTensorElementDataType type(const OrtCustomOp *op, size_t i) { (void)op, (void)i; return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
static size_t one(const OrtCustomOp *op) { (void)op; return 1; }
static void compute(void *kernel, OrtKernelContext *context) {
	(void)kernel;
	const OrtValue *in = 0;
	OrtValue *out = 0;
	OrtTensorTypeAndShapeInfo *info = 0;
	int64_t dims[8];
	size_t rank = 0, n = 0;
	float *from = 0, *to = 0;
	api->KernelContext_GetInput(context, 0, &in);
	api->GetTensorTypeAndShape(in, &info);
	api->GetDimensionsCount(info, &rank);
	api->GetDimensions(info, dims, rank);
	api->GetTensorShapeElementCount(info, &n);
	api->ReleaseTensorTypeAndShapeInfo(info);
	api->KernelContext_GetOutput(context, 0, dims, rank, &out);
	api->GetTensorMutableData((OrtValue *)in, (void **)&from);
	api->GetTensorMutableData(out, (void **)&to);
	for (size_t i = 0; i < n; i++) to[i] = 2 * from[i];
}
static void destroy(void *kernel) { (void)kernel; }
static OrtCustomOpInputOutputCharacteristic required(const OrtCustomOp *op, size_t i) { (void)op, (void)i; return INPUT_OUTPUT_REQUIRED; }

static OrtCustomOp twice = {
	.version = 8, .CreateKernel = create, .GetName = name, .GetExecutionProviderType = provider, .GetInputType = type,
	.GetInputTypeCount = one, .GetOutputType = type, .GetOutputTypeCount = one, .KernelCompute = compute, .KernelDestroy = destroy,
	.GetInputCharacteristic = required, .GetOutputCharacteristic = required,
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
	OrtCustomOpDomain *domain = 0;
	api = base->GetApi(8);
	OrtStatus *status = api->CreateCustomOpDomain("test", &domain);
	if (!status) status = api->CustomOpDomain_Add(domain, &twice);
	return status ? status : api->AddCustomOpDomain(options, domain);
}
