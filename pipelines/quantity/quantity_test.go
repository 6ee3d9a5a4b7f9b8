package quantity_test

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{quantity.Number(0), "0"}, {quantity.Number(3), "3"}, {quantity.Number(41.66667), "41.67"}, {quantity.Number(0.000012345), "0.00001234"},
		{quantity.Number(1234.5), "1235"}, {quantity.Number(12345678), "12345678"}, {quantity.Number(-0.5), "-0.5"}, {quantity.Number(999.96), "1000"},
		{quantity.Number(math.Inf(1)), "+Inf"},
		{quantity.Money(9.18), "9.18"}, {quantity.Money(0.012345), "0.0123"}, {quantity.Money(0), "0.00"},
		{quantity.Percent(0.99312), "99.31 %"}, {quantity.Percent(1), "100 %"},
		{quantity.Duration(87500 * time.Microsecond), "87.5 ms"}, {quantity.Duration(12345 * time.Millisecond), "12.35 s"},
		{quantity.Count(1, "device"), "1 device"}, {quantity.Count(0, "device"), "0 devices"},
	} {
		assert.Equal(t, c.want, c.got)
	}
}

// TestNumberIsNear: what is read back is what was written, to four digits, and
// there is never an exponent.
func TestNumberIsNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-1e12, 1e12).Draw(t, "x")
		text := quantity.Number(x)
		back, err := strconv.ParseFloat(text, 64)
		assert.NoError(t, err)
		assert.LessOrEqual(t, math.Abs(back-x), 0.5001e-3*math.Abs(x))
		assert.False(t, strings.ContainsAny(text, "eE"))
	})
}

// TestMS: what JSON shows in milliseconds is read as the same duration.
func TestMS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := quantity.MS(rapid.Int64Range(-1<<62, 1<<62).Draw(t, "ns"))
		text, err := json.Marshal(d)
		assert.NoError(t, err)
		var back quantity.MS
		assert.NoError(t, json.Unmarshal(text, &back))
		assert.Equal(t, d, back)
	})
	var m quantity.MS
	assert.ErrorContains(t, json.Unmarshal([]byte("1e300"), &m), "longer than a duration")
	assert.Error(t, json.Unmarshal([]byte(`"1"`), &m))
}
