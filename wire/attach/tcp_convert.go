package attach

import (
	"errors"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	pb "github.com/harpagon/harpagon/wire/attach/attachpb"
)

var errEmpty = errors.New("attach: a message of no known kind; gateway and workers must be of one version")

// Encode is a message as it travels, at the sender's time: what is due travels as the
// time that is left, so that clocks may differ.
func Encode(m *Message, now time.Time) (*pb.Message, error) {
	switch {
	case m.Hello != nil:
		return &pb.Message{Kind: &pb.Message_Hello{Hello: helloToProto(m.Hello)}}, nil
	case m.Batch != nil:
		b := &pb.Batch{Id: m.Batch.ID, Module: m.Batch.Module, Items: itemsToProto(m.Batch.Items), Apart: m.Batch.Apart}
		if m.Batch.Part.Parts > 0 {
			b.Part = partToProto(m.Batch.Part)
		}
		if !m.Batch.Due.IsZero() {
			in := int64(m.Batch.Due.Sub(now))
			b.DueIn = &in
		}
		return &pb.Message{Kind: &pb.Message_Batch{Batch: b}}, nil
	case m.Result != nil:
		r := &pb.Result{
			Id: m.Result.ID, Items: itemsToProto(m.Result.Items), Error: errorToProto(m.Result.Err),
			Errors: itemErrorsToProto(m.Result.Errs), Away: m.Result.Away, Untouched: m.Result.Untouched,
			Waited: int64(m.Result.Waited), Compute: int64(m.Result.Compute), Behind: uint32(m.Result.Behind),
		}
		return &pb.Message{Kind: &pb.Message_Result{Result: r}}, nil
	case m.Drain != nil:
		return &pb.Message{Kind: &pb.Message_Drain{Drain: &pb.Drain{Reason: m.Drain.Reason}}}, nil
	case m.Ready != nil:
		return &pb.Message{Kind: &pb.Message_Ready{Ready: &pb.Ready{}}}, nil
	case m.Soon != nil:
		return &pb.Message{Kind: &pb.Message_Soon{Soon: &pb.Soon{Id: m.Soon.ID, Compute: int64(m.Soon.Compute)}}}, nil
	case m.Owner != nil:
		return &pb.Message{Kind: &pb.Message_Owner{Owner: &pb.Owner{Epoch: m.Owner.Epoch}}}, nil
	case m.Skip != nil:
		return &pb.Message{Kind: &pb.Message_Skip{Skip: partToProto(m.Skip.Part)}}, nil
	case m.Done != nil:
		d := &pb.Done{
			Epoch: m.Done.Epoch, Batch: m.Done.Batch, Waited: int64(m.Done.Waited), Compute: int64(m.Done.Compute),
			Failed: uint32(m.Done.Failed), Away: m.Done.Away,
		}
		return &pb.Message{Kind: &pb.Message_Done{Done: d}}, nil
	case m.Ping != nil:
		return &pb.Message{Kind: &pb.Message_Ping{Ping: &pb.Ping{}}}, nil
	case m.Pong != nil:
		return &pb.Message{Kind: &pb.Message_Pong{Pong: &pb.Ping{}}}, nil
	}
	return nil, errEmpty
}

// Decode is a message that has travelled, at the receiver's time.
func Decode(m *pb.Message, now time.Time) (*Message, error) {
	switch k := m.GetKind().(type) {
	case *pb.Message_Hello:
		return &Message{Hello: helloFromProto(k.Hello)}, nil
	case *pb.Message_Batch:
		b := &Batch{ID: k.Batch.GetId(), Module: k.Batch.GetModule(), Items: itemsFromProto(k.Batch.GetItems()), Part: partFromProto(k.Batch.GetPart()), Apart: k.Batch.GetApart()}
		if k.Batch.DueIn != nil {
			b.Due = now.Add(time.Duration(k.Batch.GetDueIn()))
		}
		return &Message{Batch: b}, nil
	case *pb.Message_Result:
		r := &Result{
			ID: k.Result.GetId(), Items: itemsFromProto(k.Result.GetItems()), Err: errorFromProto(k.Result.GetError()),
			Away: k.Result.GetAway(), Untouched: k.Result.GetUntouched(), Waited: time.Duration(k.Result.GetWaited()), Compute: time.Duration(k.Result.GetCompute()),
		}
		r.Errs = itemErrorsFromProto(k.Result.GetErrors(), len(r.Items))
		r.Behind = int(min(k.Result.GetBehind(), uint32(len(r.Items))))
		return &Message{Result: r}, nil
	case *pb.Message_Drain:
		return &Message{Drain: &Drain{Reason: k.Drain.GetReason()}}, nil
	case *pb.Message_Ready:
		return &Message{Ready: &Ready{}}, nil
	case *pb.Message_Soon:
		return &Message{Soon: &Soon{ID: k.Soon.GetId(), Compute: time.Duration(k.Soon.GetCompute())}}, nil
	case *pb.Message_Owner:
		return &Message{Owner: &Owner{Epoch: k.Owner.GetEpoch()}}, nil
	case *pb.Message_Skip:
		return &Message{Skip: &Skip{Part: partFromProto(k.Skip)}}, nil
	case *pb.Message_Done:
		d := &Done{
			Epoch: k.Done.GetEpoch(), Batch: k.Done.GetBatch(), Waited: time.Duration(k.Done.GetWaited()), Compute: time.Duration(k.Done.GetCompute()),
			Failed: int(k.Done.GetFailed()), Away: k.Done.GetAway(),
		}
		return &Message{Done: d}, nil
	case *pb.Message_Ping:
		return &Message{Ping: &Ping{}}, nil
	case *pb.Message_Pong:
		return &Message{Pong: &Ping{}}, nil
	}
	return nil, errEmpty
}

func partToProto(p Part) *pb.Part {
	return &pb.Part{Epoch: p.Epoch, Batch: p.Batch, Part: uint32(p.Part), Parts: uint32(p.Parts)}
}

func partFromProto(p *pb.Part) Part {
	return Part{Epoch: p.GetEpoch(), Batch: p.GetBatch(), Part: int(p.GetPart()), Parts: int(p.GetParts())}
}

func helloToProto(h *Hello) *pb.Hello {
	out := &pb.Hello{
		Executor: h.Executor, Pipeline: h.Pipeline, Module: h.Module, Host: h.Host, Device: h.Device,
		Hardware: h.Hardware, Engine: h.Engine, MaxBatch: int32(h.MaxBatch), Concurrency: int32(h.Concurrency),
		Inputs: portsToProto(h.Signature.Inputs), Outputs: portsToProto(h.Signature.Outputs),
	}
	for _, r := range h.Residents {
		out.Residents = append(out.Residents, &pb.Resident{Name: r.Name, Inputs: portsToProto(r.Signature.Inputs), Outputs: portsToProto(r.Signature.Outputs)})
	}
	return out
}

func helloFromProto(h *pb.Hello) *Hello {
	out := &Hello{
		Executor: h.GetExecutor(), Pipeline: h.GetPipeline(), Module: h.GetModule(), Host: h.GetHost(), Device: h.GetDevice(),
		Hardware: h.GetHardware(), Engine: h.GetEngine(), MaxBatch: int(h.GetMaxBatch()), Concurrency: int(h.GetConcurrency()),
		Signature: pipelines.Signature{Inputs: portsFromProto(h.GetInputs()), Outputs: portsFromProto(h.GetOutputs())},
	}
	for _, r := range h.GetResidents() {
		out.Residents = append(out.Residents, Resident{
			Name: r.GetName(), Signature: pipelines.Signature{Inputs: portsFromProto(r.GetInputs()), Outputs: portsFromProto(r.GetOutputs())},
		})
	}
	return out
}

func portsToProto(ports []pipelines.Port) []*pb.Port {
	out := make([]*pb.Port, len(ports))
	for i, p := range ports {
		out[i] = &pb.Port{Name: p.Name, Datatype: p.Datatype, Shape: p.Shape, Loop: p.Loop}
	}
	return out
}

func portsFromProto(ports []*pb.Port) []pipelines.Port {
	out := make([]pipelines.Port, len(ports))
	for i, p := range ports {
		out[i] = pipelines.Port{Name: p.GetName(), Datatype: p.GetDatatype(), Shape: p.GetShape(), Loop: p.GetLoop()}
	}
	return out
}

func itemsToProto(items [][]wire.Tensor) []*pb.Item {
	out := make([]*pb.Item, len(items))
	for i, tensors := range items {
		out[i] = &pb.Item{Tensors: make([]*pb.Tensor, len(tensors))}
		for j, t := range tensors {
			out[i].Tensors[j] = &pb.Tensor{Datatype: t.Datatype, Shape: t.Shape, Data: t.Data}
		}
	}
	return out
}

func itemsFromProto(items []*pb.Item) [][]wire.Tensor {
	if len(items) == 0 {
		return nil
	}
	out := make([][]wire.Tensor, len(items))
	for i, item := range items {
		out[i] = make([]wire.Tensor, len(item.GetTensors()))
		for j, t := range item.GetTensors() {
			out[i][j] = wire.Tensor{Datatype: t.GetDatatype(), Shape: t.GetShape(), Data: t.GetData()}
		}
	}
	return out
}

func itemErrorsToProto(errs []*wire.Error) []*pb.ItemError {
	var out []*pb.ItemError
	for i, e := range errs {
		if e != nil {
			out = append(out, &pb.ItemError{Item: uint32(i), Error: errorToProto(e)})
		}
	}
	return out
}

// itemErrorsFromProto makes room for as many requests as the result has.
func itemErrorsFromProto(errs []*pb.ItemError, items int) []*wire.Error {
	if len(errs) == 0 {
		return nil
	}
	out := make([]*wire.Error, items)
	for _, e := range errs {
		if i := e.GetItem(); i < uint32(items) {
			out[i] = errorFromProto(e.GetError())
		}
	}
	return out
}

func errorToProto(e *wire.Error) *pb.Error {
	if e == nil {
		return nil
	}
	return &pb.Error{Code: string(e.Code), Reason: e.Reason, Stage: e.Stage, Budget: int64(e.Budget), Elapsed: int64(e.Elapsed)}
}

func errorFromProto(e *pb.Error) *wire.Error {
	if e == nil {
		return nil
	}
	return &wire.Error{
		Code: wire.Code(e.GetCode()), Reason: e.GetReason(), Stage: e.GetStage(),
		Budget: time.Duration(e.GetBudget()), Elapsed: time.Duration(e.GetElapsed()),
	}
}
