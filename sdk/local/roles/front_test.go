package roles

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
)

func TestAServiceThatIsNotReadyIsUnavailableAndNotUnknown(t *testing.T) {
	f := newFront(gateway.New(gateway.Options{}))
	handler := httpapi.New(f, httpapi.Options{})
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Header().Get("Retry-After")
	}
	check := func(path string, code int) {
		t.Helper()
		got, after := get(path)
		require.Equal(t, code, got)
		require.Equal(t, code == http.StatusServiceUnavailable, after != "")
	}
	infer := func(name string) error {
		_, err := f.Infer(t.Context(), &wire.InferRequest{Pipeline: name})
		return err
	}
	// It has just started, and any service may follow.
	check("/v2/health/ready", http.StatusServiceUnavailable)
	check("/v2/health/live", http.StatusOK)
	check("/v2/models/traffic", http.StatusServiceUnavailable)
	require.ErrorIs(t, infer("traffic"), wire.ErrUnavailable)
	var e *wire.Error
	require.ErrorAs(t, infer("traffic"), &e)
	require.True(t, e.Starting)
	require.Equal(t, codes.Unavailable, status.Code(oipgrpc.EncodeError(infer("traffic"))))
	require.False(t, f.knows("traffic"))

	f.Announce("traffic")
	f.Announce("ranker")
	require.True(t, f.knows("traffic"))
	f.enter(serving)
	check("/v2/health/ready", http.StatusOK)
	check("/v2/models/traffic", http.StatusServiceUnavailable)
	check("/v2/models/traffic/ready", http.StatusServiceUnavailable)
	check("/v2/models/nothing", http.StatusNotFound)
	require.ErrorIs(t, infer("traffic"), wire.ErrUnavailable)
	require.ErrorIs(t, infer("ranker/app"), wire.ErrUnavailable)
	require.ErrorAs(t, infer("ranker/app"), &e)
	require.False(t, e.Starting, "another does not have it either")
	require.ErrorIs(t, infer("nothing"), wire.ErrNotFound)

	require.NoError(t, f.Remove(t.Context(), "traffic", placement.Age{}))
	check("/v2/models/traffic", http.StatusNotFound)

	f.enter(leaving)
	check("/v2/health/ready", http.StatusServiceUnavailable)
	check("/v2/health/live", http.StatusOK)
}
