package grpcapi

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// service is the protocol's, but for requests of inference: they are read into a call and
// answered from an answer of the backend, without the structs of their messages.
func service() *grpc.ServiceDesc {
	s := pb.GRPCInferenceService_ServiceDesc
	s.Methods = slices.Clone(s.Methods)
	for i := range s.Methods {
		handle := s.Methods[i].Handler
		if "/"+s.ServiceName+"/"+s.Methods[i].MethodName == pb.GRPCInferenceService_ModelInfer_FullMethodName {
			handle = modelInfer
		}
		s.Methods[i].Handler = ending(handle)
	}
	return &s
}

// modelInfer is the handler of ModelInfer.
func modelInfer(of any, ctx context.Context, read func(any) error, guard grpc.UnaryServerInterceptor) (any, error) {
	s := of.(*server)
	in, err := s.receive(callOf(ctx), read)
	if err != nil {
		return nil, err
	}
	defer in.held.Release()
	if guard == nil {
		return s.infer(ctx, in)
	}
	info := grpc.UnaryServerInfo{Server: of, FullMethod: pb.GRPCInferenceService_ModelInfer_FullMethodName}
	return guard(ctx, &in.Call, &info, func(ctx context.Context, _ any) (any, error) { return s.infer(ctx, in) })
}

// infer runs one request. The answer counts as held until it is written.
func (s *server) infer(ctx context.Context, in *incoming) (*answer, error) {
	if in.full != nil {
		return nil, oipgrpc.EncodeError(in.full)
	}
	c, within := connOf(ctx), ctx
	defer c.working()()
	in.Request.Arrived = c.arrival()
	if k := callOf(ctx); k == nil || k.traced {
		within = oipgrpc.Traced(within)
	}
	r, err := s.run(within, &in.Call)
	if err == nil {
		err = ctx.Err() // nobody waits for it
	}
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	plain(ctx)
	a, err := s.encode(c, r, &in.Call, false)
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	return a, nil
}

// run has the backend answer a call.
func (s *server) run(ctx context.Context, call *oipgrpc.Call) (*wire.InferResponse, error) {
	if call.Err != nil {
		return nil, call.Err
	}
	if call.Version != "" {
		if _, err := s.model(ctx, call.Request.Pipeline, call.Version); err != nil {
			return nil, err
		}
	}
	if call.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, call.Timeout)
		defer cancel()
		ctx = limited
	}
	return s.backend.Infer(ctx, &call.Request)
}
