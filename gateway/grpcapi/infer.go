package grpcapi

import (
	"context"

	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// ModelInfer runs one request.
func (s *server) ModelInfer(ctx context.Context, m *pb.ModelInferRequest) (*pb.ModelInferResponse, error) {
	held, err := s.read(ctx, m)
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	defer held.Release()
	call, err := oipgrpc.DecodeRequest(m)
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	call.Request.Arrived = arrivalOf(ctx)
	if call.Version != "" {
		if _, err := s.model(ctx, call.Request.Pipeline, call.Version); err != nil {
			return nil, oipgrpc.EncodeError(err)
		}
	}
	if call.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, call.Timeout)
		defer cancel()
		ctx = limited
	}
	answer, err := s.backend.Infer(oipgrpc.Traced(ctx), &call.Request)
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	out, err := oipgrpc.EncodeResponse(answer, call.Raw)
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	return out, nil
}
