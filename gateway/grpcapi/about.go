package grpcapi

import (
	"context"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// States of a model in the list of models.
const (
	stateReady       = "READY"
	stateUnavailable = "UNAVAILABLE"
)

// ServerLive is true while the process serves.
func (s *server) ServerLive(context.Context, *pb.ServerLiveRequest) (*pb.ServerLiveResponse, error) {
	return &pb.ServerLiveResponse{Live: true}, nil
}

// ServerReady is true when the gateway has been told of all services, whatever one of them
// lacks.
func (s *server) ServerReady(_ context.Context, _ *pb.ServerReadyRequest) (*pb.ServerReadyResponse, error) {
	if b, ok := s.backend.(interface{ Ready() error }); ok && b.Ready() != nil {
		return &pb.ServerReadyResponse{}, nil
	}
	return &pb.ServerReadyResponse{Ready: true}, nil
}

// ModelReady is true when every module of the pipeline has an executor.
func (s *server) ModelReady(ctx context.Context, q *pb.ModelReadyRequest) (*pb.ModelReadyResponse, error) {
	m, err := s.model(ctx, q.GetName(), q.GetVersion())
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	return &pb.ModelReadyResponse{Ready: m.Ready}, nil
}

// ServerMetadata tells the program's version and the extensions.
func (s *server) ServerMetadata(context.Context, *pb.ServerMetadataRequest) (*pb.ServerMetadataResponse, error) {
	m := &pb.ServerMetadataResponse{Name: "harpagon", Version: s.options.Version, Extensions: []string{"model_repository"}}
	if m.Version == "" {
		m.Version = "dev"
	}
	if s.options.Statistics != nil {
		m.Extensions = append(m.Extensions, "statistics")
	}
	return m, nil
}

// ModelMetadata tells inputs and outputs.
func (s *server) ModelMetadata(ctx context.Context, q *pb.ModelMetadataRequest) (*pb.ModelMetadataResponse, error) {
	m, err := s.model(ctx, q.GetName(), q.GetVersion())
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	_ = grpc.SetHeader(ctx, oipgrpc.EncodeMore(m)) // of use to our own clients only
	return oipgrpc.EncodeMetadata(m), nil
}

// RepositoryIndex lists the pipelines. There is one repository, without a name.
func (s *server) RepositoryIndex(ctx context.Context, q *pb.RepositoryIndexRequest) (*pb.RepositoryIndexResponse, error) {
	all, err := s.models(ctx)
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	out := &pb.RepositoryIndexResponse{}
	for _, m := range all {
		index := &pb.RepositoryIndexResponse_ModelIndex{Name: m.Pipeline, Version: strconv.Itoa(m.Generation), State: stateReady}
		if !m.Ready {
			if q.GetReady() {
				continue
			}
			index.State, index.Reason = stateUnavailable, m.Reason
		}
		out.Models = append(out.Models, index)
	}
	return out, nil
}

// ModelStatistics adds up since the gateway started, for one pipeline or all.
func (s *server) ModelStatistics(ctx context.Context, q *pb.ModelStatisticsRequest) (*pb.ModelStatisticsResponse, error) {
	if s.options.Statistics == nil {
		return nil, status.Error(codes.Unimplemented, "this server keeps no statistics")
	}
	var all []*wire.Metadata
	var err error
	if q.GetName() == "" {
		all, err = s.models(ctx)
	} else {
		var m *wire.Metadata
		m, err = s.model(ctx, q.GetName(), q.GetVersion())
		all = []*wire.Metadata{m}
	}
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	out := &pb.ModelStatisticsResponse{}
	for _, m := range all {
		out.ModelStats = append(out.ModelStats, encodeStatistics(m, s.options.Statistics(m.Pipeline)))
	}
	return out, nil
}

func encodeStatistics(m *wire.Metadata, p gateway.PipelineStatistics) *pb.ModelStatistics {
	out := &pb.ModelStatistics{
		Name: m.Pipeline, Version: strconv.Itoa(m.Generation),
		InferenceCount: uint64(p.Success.Count), ExecutionCount: uint64(p.Executed),
		InferenceStats: &pb.InferStatistics{
			Success: encodeDuration(p.Success), Fail: encodeDuration(p.Fail), Queue: encodeDuration(p.Queue),
			ComputeInput: &pb.StatisticDuration{}, ComputeInfer: encodeDuration(p.Compute), ComputeOutput: &pb.StatisticDuration{},
		},
	}
	if !p.Last.IsZero() {
		out.LastInference = uint64(p.Last.UnixMilli())
	}
	for _, b := range p.Batches {
		out.BatchStats = append(out.BatchStats, &pb.InferBatchStatistics{
			BatchSize: uint64(b.Size), ComputeInput: &pb.StatisticDuration{}, ComputeInfer: encodeDuration(b.Compute), ComputeOutput: &pb.StatisticDuration{},
		})
	}
	return out
}

func encodeDuration(d gateway.DurationStatistics) *pb.StatisticDuration {
	return &pb.StatisticDuration{Count: uint64(d.Count), Ns: uint64(d.Total)}
}

// model is the metadata of a model. A version must be the one that is served.
func (s *server) model(ctx context.Context, name, version string) (*wire.Metadata, error) {
	m, err := s.backend.Metadata(ctx, name)
	if err != nil {
		return nil, err
	}
	if version != "" && version != strconv.Itoa(m.Generation) {
		return nil, wire.Errorf(wire.CodeNotFound, "", "pipeline %q is served in version %d, not %s", m.Pipeline, m.Generation, version)
	}
	return m, nil
}

// models are all that are served, in order of name.
func (s *server) models(ctx context.Context) ([]*wire.Metadata, error) {
	names, err := s.backend.Pipelines(ctx)
	if err != nil {
		return nil, err
	}
	var all []*wire.Metadata
	for _, name := range names {
		if m, err := s.backend.Metadata(ctx, name); err == nil { // or it has just gone
			all = append(all, m)
		}
	}
	return all, nil
}
