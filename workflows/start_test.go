package workflows

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// One message to the server has as many workflows as fit; one that does not fit even alone
// goes by itself.
func TestAsMuchAsFitsIsStartedTogether(t *testing.T) {
	itself := func(n int) int { return n }
	for _, c := range []struct {
		sizes       []int
		many, bytes int
		want        int
	}{
		{[]int{3, 3, 3}, 50, 9, 3},
		{[]int{3, 3, 3}, 50, 8, 2},
		{[]int{3, 3, 3}, 2, 9, 2},
		{[]int{30, 3}, 50, 9, 1},
		{[]int{3, 30}, 50, 9, 1},
		{[]int{3}, 1, 9, 1},
	} {
		first, rest := firstOf(c.sizes, c.many, c.bytes, itself)
		assert.Equal(t, c.want, len(first), "%+v", c)
		assert.Equal(t, c.sizes, append(first, rest...))
	}
	rapid.Check(t, func(t *rapid.T) {
		left := rapid.SliceOfN(rapid.IntRange(0, 20), 0, 40).Draw(t, "sizes")
		many, bytes := rapid.IntRange(1, 10).Draw(t, "many"), rapid.IntRange(0, 50).Draw(t, "bytes")
		for len(left) > 0 {
			first, rest := firstOf(left, many, bytes, itself)
			sum := 0
			for _, n := range first {
				sum += n
			}
			if len(first) == 0 || len(first) > many || len(first) > 1 && sum > bytes {
				t.Fatalf("%v of %v for %d of %d bytes", first, left, many, bytes)
			}
			if len(rest) > 0 && len(first) < many && sum+rest[0] <= bytes {
				t.Fatalf("%v of %v, though there was room for one more among %d of %d bytes", first, left, many, bytes)
			}
			left = rest
		}
	})
}
