package serverless

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// maxAnswer bounds the answer of a call, in bytes.
const maxAnswer = 256 << 20

// encode stacks the requests and writes them, as JSON unless the provider has
// said that it knows binary data, or JSON cannot carry it. header is -1 for
// JSON.
func (t *Target) encode(b Batch) (body []byte, header int, err error) {
	var q wire.InferRequest
	rows := make([]wire.Tensor, len(b.Items))
	for j, named := range b.Items[0] {
		for i, item := range b.Items {
			if len(item) != len(b.Items[0]) || item[j].Name != named.Name {
				return nil, 0, fmt.Errorf("the requests of a batch have different inputs")
			}
			rows[i] = item[j].Tensor
		}
		stacked, err := wire.Stack(rows)
		if err != nil {
			return nil, 0, fmt.Errorf("input %q: %s", named.Name, strings.TrimPrefix(err.Error(), "wire: "))
		}
		q.Inputs = append(q.Inputs, wire.NamedTensor{Name: named.Name, Tensor: stacked})
	}
	if !t.binary.Load() {
		if body, err = oip.EncodeRequestJSON(&q, t.provider.CallTimeout()); err == nil {
			return body, -1, nil
		}
	}
	return oip.EncodeRequest(&q, t.provider.CallTimeout())
}

// decode takes the answer apart into one for each of n requests.
func (t *Target) decode(answer *oip.HTTPAnswer, n int, out *Outcome) {
	header, err := answer.JSON()
	var r *wire.InferResponse
	if err == nil {
		r, err = oip.DecodeResponse(answer.Body, header)
	}
	switch {
	case err != nil:
		out.fail(Garbage, wire.CodeInternal, "the answer of function %s cannot be read: %s", t.name, reason(err))
		return
	case len(r.Outputs) == 0:
		out.fail(Garbage, wire.CodeInternal, "the answer of function %s holds no output", t.name)
		return
	}
	items := make([][]wire.NamedTensor, n)
	for _, o := range r.Outputs {
		rows, err := wire.Rows(o.Tensor)
		if err != nil || len(rows) != n {
			out.fail(Misshapen, wire.CodeInternal, "function %s answered %d requests with output %q of shape %v", t.name, n, o.Name, o.Shape)
			return
		}
		for i, row := range rows {
			items[i] = append(items[i], wire.NamedTensor{Name: o.Name, Tensor: row})
		}
	}
	out.Items = items
}

func decodeError(status int, answer []byte) *wire.Error {
	e := oip.DecodeError(status, answer)
	if e.Reason == "" {
		e.Reason = http.StatusText(status)
	}
	return e
}

func reason(err error) string {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return err.Error()
}
