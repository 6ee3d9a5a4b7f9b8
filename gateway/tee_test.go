package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTee(t *testing.T) {
	var got []string
	note := func(who string) func(RequestInfo) {
		return func(i RequestInfo) { got = append(got, who+i.ID) }
	}
	o := Tee(Observer{RequestBegin: note("a"), RequestEnd: note("c")}, Observer{}, Observer{RequestBegin: note("b")})
	o.RequestBegin(RequestInfo{ID: "1"})
	o.RequestEnd(RequestInfo{ID: "2"})
	require.Equal(t, []string{"a1", "b1", "c2"}, got)
	require.Nil(t, o.BatchBegin)
}
