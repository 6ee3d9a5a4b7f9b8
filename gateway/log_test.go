package gateway_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
)

func records(t *testing.T, text string) (all []map[string]any) {
	for line := range strings.Lines(text) {
		var one map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		delete(one, "time")
		all = append(all, one)
	}
	return all
}

// Every outcome but an answer in time is in the log at once, whatever was before.
func TestFailuresAreWritten(t *testing.T) {
	for _, outcome := range []gateway.Outcome{gateway.Late, gateway.Dropped, gateway.Refused, gateway.Failed, gateway.Cancelled, gateway.Invalid} {
		var b bytes.Buffer
		l := gateway.NewLog(slog.New(slog.NewJSONHandler(&b, nil)))
		l.Observer().RequestEnd(gateway.RequestInfo{Pipeline: "p", ID: "7", Outcome: outcome})
		got := records(t, b.String())
		require.Len(t, got, 1, outcome)
		require.Equal(t, "request "+outcome.String(), got[0]["msg"])
		require.Equal(t, "7", got[0]["request_id"])
		l.Close()
	}
}

// A flood is two records in each LogEvery, and none of it is lost: the records' counts add up.
func TestFloodAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := gateway.NewLog(slog.New(slog.NewJSONHandler(&b, nil)))
		o := l.Observer()
		const n = 5000
		for range n {
			o.RequestEnd(gateway.RequestInfo{Pipeline: "p", Outcome: gateway.Dropped, Err: &wire.Error{Code: wire.CodeDeadline, Stage: "m", Reason: "too late"}})
			o.RequestEnd(gateway.RequestInfo{Pipeline: "p", Outcome: gateway.Completed})
			time.Sleep(5 * time.Millisecond)
		}
		l.Close()
		got := records(t, b.String())
		require.Less(t, len(got), 6)
		sum := 0.0
		for _, r := range got {
			require.Equal(t, "WARN", r["level"])
			require.Equal(t, "m", r["module"])
			require.Equal(t, "too late", r["reason"])
			if more, ok := r["more"]; ok {
				sum += more.(float64)
			} else {
				sum++
			}
		}
		require.EqualValues(t, n, sum)
	})
}

// After a quiet time a failure is written at once again.
func TestQuietForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := gateway.NewLog(slog.New(slog.NewJSONHandler(&b, nil)))
		defer l.Close()
		o := l.Observer()
		for range 3 {
			o.BatchEnd(gateway.BatchInfo{Pipeline: "p", Module: "m", Err: &wire.Error{Code: wire.CodeInternal, Reason: "broken"}})
			time.Sleep(2*gateway.LogEvery + time.Second)
		}
		require.Len(t, records(t, b.String()), 3)
	})
}

func TestWhatServesIsWritten(t *testing.T) {
	var b bytes.Buffer
	o := gateway.NewLog(slog.New(slog.NewJSONHandler(&b, nil))).Observer()
	o.Installed(gateway.InstallInfo{Pipeline: "p", Generation: 2, Previous: 1})
	o.Detached(gateway.ExecutorInfo{Pipeline: "p", Executor: "e", Err: errors.New("reset by peer")})
	got := records(t, b.String())
	require.Equal(t, "generation installed", got[0]["msg"])
	require.Equal(t, "executor lost", got[1]["msg"])
	require.Equal(t, "reset by peer", got[1]["error"])
	require.Nil(t, gateway.NewLog(nil).Observer().RequestEnd, "costs nothing without a logger")
	gateway.NewLog(nil).Close()
}
