package quantity

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type counted struct {
	Requests int `json:"requests"`
}

type shown struct {
	Name    string                   `json:"name"`
	Counted counted                  `json:"counted"`
	SLO     time.Duration            `json:"slo_ms"`
	Spare   time.Duration            `json:"spare_ms,omitempty"`
	Budgets map[string]time.Duration `json:"budgets_ms"`
	Parts   []shown                  `json:"parts"`
	Few     []int                    `json:"few,omitempty"`
	Inside  int                      `json:"-"`
}

func (s shown) MarshalJSON() ([]byte, error) {
	return Marshal(s, Derived{After: "slo_ms", Tag: "twice_ms", Value: MS(2 * s.SLO)}, Derived{After: "slo_ms", Tag: "none,omitempty", Value: 0})
}

func (s *shown) UnmarshalJSON(text []byte) error { return Unmarshal(text, s) }

func TestDurationsAreMillisecondsInJSON(t *testing.T) {
	in := shown{
		Name: "a", Counted: counted{Requests: 1}, SLO: 1500 * time.Microsecond, Inside: 3,
		Budgets: map[string]time.Duration{"b": time.Nanosecond}, Parts: []shown{{Name: "c", Spare: time.Second, Few: []int{1}}},
	}
	text, err := json.Marshal(in)
	require.NoError(t, err)
	assert.Equal(t, `{"name":"a","counted":{"requests":1},"slo_ms":1.5,"twice_ms":3,"budgets_ms":{"b":0.000001},`+
		`"parts":[{"name":"c","counted":{"requests":0},"slo_ms":0,"twice_ms":0,"spare_ms":1000,"budgets_ms":{},"parts":[],"few":[1]}]}`, string(text))

	out := shown{Inside: 9, Few: []int{9}}
	require.NoError(t, json.Unmarshal(text, &out))
	in.Inside = 0
	assert.Equal(t, in, out, "and nothing of before is left")
	assert.ErrorContains(t, json.Unmarshal([]byte(`{"slo_ms":"1"}`), &out), "cannot unmarshal string")
}

// Counted is embedded.
type Counted struct {
	Requests int `json:"requests"`
}

func TestEmbeddedFieldsAreTheStructsOwnInJSON(t *testing.T) {
	type row struct {
		Counted
		SLO time.Duration `json:"slo_ms"`
	}
	text, err := Marshal(row{Counted{Requests: 2}, time.Millisecond})
	require.NoError(t, err)
	assert.JSONEq(t, `{"requests":2,"slo_ms":1}`, string(text))
	var back row
	require.NoError(t, Unmarshal(text, &back))
	assert.Equal(t, row{Counted{Requests: 2}, time.Millisecond}, back)
}
