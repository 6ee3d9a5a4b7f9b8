package grpcapi

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines/triton/modelconfig"
	"github.com/harpagon/harpagon/wire"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

func parameter(n int64) map[string]*pb.InferParameter {
	return map[string]*pb.InferParameter{"classification": {ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: n}}}
}

func TestConfigurationAndRepository(t *testing.T) {
	c := serve(t, &backend{}, Options{})
	r, err := c.ModelConfig(t.Context(), &pb.ModelConfigRequest{Name: "p"})
	require.NoError(t, err)
	require.Equal(t, "p", r.GetConfig().GetName())
	require.Equal(t, int32(0), r.GetConfig().GetMaxBatchSize())
	require.Equal(t, modelconfig.DataType_TYPE_FP32, r.GetConfig().GetInput()[0].GetDataType())
	require.Equal(t, []int64{2}, r.GetConfig().GetInput()[0].GetDims())
	_, err = c.ModelConfig(t.Context(), &pb.ModelConfigRequest{Name: "q"})
	require.Equal(t, codes.NotFound, status.Code(err))

	_, err = c.RepositoryModelLoad(t.Context(), &pb.RepositoryModelLoadRequest{ModelName: "p"})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "harpagon apply")
	_, err = c.RepositoryModelUnload(t.Context(), &pb.RepositoryModelUnloadRequest{ModelName: "p"})
	require.ErrorContains(t, err, "harpagon down p")
}

func TestClassification(t *testing.T) {
	c := serve(t, &backend{}, Options{})
	q := question()
	q.Outputs = []*pb.ModelInferRequest_InferRequestedOutputTensor{{Name: "x", Parameters: parameter(1)}}
	r, err := c.ModelInfer(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, "BYTES", r.GetOutputs()[0].GetDatatype())
	require.Equal(t, []int64{1}, r.GetOutputs()[0].GetShape())
	require.Equal(t, wire.FromStrings([]string{"2.000000:1"}).Data, r.GetRawOutputContents()[0])

	held := gateway.NewBytes(gateway.ByteLimits{Total: 3 << 19})
	c = serve(t, &backend{infer: func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		return &wire.InferResponse{Outputs: []wire.NamedTensor{{Name: "x", Tensor: wire.Tensor{Datatype: wire.Uint8, Shape: []int64{1 << 17, 1}, Data: make([]byte, 1<<17)}}}}, nil
	}}, Options{Bytes: held})
	_, err = c.ModelInfer(t.Context(), q)
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "classes count as held: %v", err)
	require.Eventually(t, func() bool { return held.Now() == 0 }, time.Minute, time.Millisecond)
}

func TestUnknownParametersAreRefused(t *testing.T) {
	c := serve(t, &backend{}, Options{})
	for name, change := range map[string]func(q *pb.ModelInferRequest){
		"priority": func(q *pb.ModelInferRequest) {
			q.Parameters = map[string]*pb.InferParameter{"priority": {ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: 3}}}
		},
		"shared_memory_region": func(q *pb.ModelInferRequest) {
			q.Inputs[0].Parameters = map[string]*pb.InferParameter{"shared_memory_region": {ParameterChoice: &pb.InferParameter_StringParam{StringParam: "r"}}}
		},
		"binary_data": func(q *pb.ModelInferRequest) {
			q.Outputs = []*pb.ModelInferRequest_InferRequestedOutputTensor{{Name: "x", Parameters: map[string]*pb.InferParameter{"binary_data": {}}}}
		},
		"how many classes": func(q *pb.ModelInferRequest) {
			q.Outputs = []*pb.ModelInferRequest_InferRequestedOutputTensor{{Name: "x", Parameters: map[string]*pb.InferParameter{"classification": {ParameterChoice: &pb.InferParameter_StringParam{StringParam: "3"}}}}}
		},
	} {
		q := question()
		change(q)
		_, err := c.ModelInfer(t.Context(), q)
		require.Equal(t, codes.InvalidArgument, status.Code(err), name)
		require.ErrorContains(t, err, name)
	}
}

func TestCompressedRequests(t *testing.T) {
	c := serve(t, &backend{infer: func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		return &wire.InferResponse{Pipeline: q.Pipeline, Outputs: q.Inputs}, nil
	}}, Options{MaxMessage: 1 << 20})
	r, err := c.ModelInfer(t.Context(), question(), grpc.UseCompressor(gzip.Name))
	require.NoError(t, err)
	require.Len(t, r.GetRawOutputContents()[0], 8)
	bomb := question()
	bomb.RawInputContents[0] = make([]byte, 16<<20)
	_, err = c.ModelInfer(t.Context(), bomb, grpc.UseCompressor(gzip.Name))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
}
