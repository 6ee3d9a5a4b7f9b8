package gateway

import (
	"context"
	"errors"
	"sync"

	"github.com/harpagon/harpagon/wire"
)

// inferParts answers a batch that a client has made, taken apart by wire.Batch:
// every part is a request of its own to infer, all at once, and the answers are
// joined in order. The first that fails is the failure of the whole and says which
// request it was; the others are taken back.
func inferParts(ctx context.Context, q *wire.InferRequest, parts [][]wire.NamedTensor, infer func(context.Context, *wire.InferRequest) (*wire.InferResponse, error)) (*wire.InferResponse, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answers := make([]*wire.InferResponse, len(parts))
	var failed error
	var once sync.Once
	var under sync.WaitGroup
	for i, part := range parts {
		under.Go(func() {
			one := *q
			one.Inputs = part
			var err error
			if answers[i], err = infer(ctx, &one); err != nil {
				once.Do(func() {
					failed = err
					var e *wire.Error
					if errors.As(err, &e) {
						failed = wire.OfBatch(e, i, len(parts))
					}
					stop()
				})
			}
		})
	}
	under.Wait()
	if failed != nil {
		return nil, failed
	}
	joined, err := wire.Join(answers)
	if err != nil {
		return nil, err
	}
	return joined, nil
}

// parts takes a batch apart that a client has made; nil for any other request.
func (g *Gateway) parts(gr *deployed, q *wire.InferRequest) ([][]wire.NamedTensor, *wire.Error) {
	parts, err := wire.Batch(gr.Inputs, q.Inputs)
	if err != nil || parts == nil {
		return nil, err
	}
	if len(parts) > g.options.MaxInFlight {
		return nil, wire.Errorf(wire.CodeInvalid, "", "a batch of %d requests is more than the %d that the gateway takes at a time; send smaller ones", len(parts), g.options.MaxInFlight)
	}
	// What is wrong with all of them is said once, and nothing is begun.
	one := *q
	one.Inputs = parts[0]
	if _, err := gr.arrange(&one); err != nil {
		return nil, err
	}
	return parts, nil
}
