package attach

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/secure/securetest"
	"github.com/harpagon/harpagon/wire/stream"
)

// patiently keeps peers on a busy machine from counting as gone, in tests that are not about
// that.
func patiently(o TCPOptions) TCPOptions {
	if o.Keepalive == 0 {
		o.Keepalive = time.Minute
	}
	return o
}

// serve accepts streams over TCP on loopback and returns the address.
func serve(t testing.TB, o TCPOptions, accept func(Stream) error) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, patiently(o), accept) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return l.Addr().String()
}

// echo answers every batch with its own items, until it receives Drain.
func echo(s Stream) error {
	for {
		m, err := s.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Batch != nil:
			_ = s.Send(&Message{Result: &Result{ID: m.Batch.ID, Items: m.Batch.Items}})
		case m.Drain != nil:
			return nil
		}
	}
}

func dial(t testing.TB, ctx context.Context, o TCPOptions, address string) Stream {
	s, err := Dialer{patiently(o)}.Dial(ctx, address)
	require.NoError(t, err)
	return s
}

func TestMessagesArriveWhole(t *testing.T) {
	hello := &Hello{
		Executor: "e", Pipeline: "p", Module: "m", Host: "h", Device: "cpu/0", Hardware: "cpu", Engine: "emulated", MaxBatch: 8, Concurrency: 2,
		Signature: pipelines.Signature{Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{-1, 3}}}, Outputs: []pipelines.Port{{Name: "y", Datatype: "BYTES", Shape: []int64{1}}}},
	}
	got := make(chan *Message, 1)
	address := serve(t, TCPOptions{}, func(s Stream) error {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		got <- m
		return echo(s)
	})
	s := dial(t, context.Background(), TCPOptions{}, address)
	require.NoError(t, s.Send(&Message{Hello: hello}))
	require.Equal(t, hello, (<-got).Hello)
	big := wire.FromFloat32(make([]float32, 3<<20), 3, 1<<20)
	require.NoError(t, s.Send(&Message{Batch: &Batch{ID: 9, Items: [][]wire.Tensor{{big}, {wire.FromStrings([]string{"a"})}}}}))
	m, err := s.Recv()
	require.NoError(t, err)
	require.Equal(t, [][]wire.Tensor{{big}, {wire.FromStrings([]string{"a"})}}, m.Result.Items)
	require.NoError(t, s.Send(&Message{Drain: &Drain{}}))
	_, err = s.Recv()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, s.Close())
}

func TestResultAndDueSurviveConversion(t *testing.T) {
	now := time.Unix(1000, 0)
	rapid.Check(t, func(t *rapid.T) {
		r := &Message{Result: &Result{
			ID: rapid.Uint64().Draw(t, "id"), Waited: time.Duration(rapid.Int64().Draw(t, "waited")), Compute: time.Duration(rapid.Int64().Draw(t, "compute")),
			Err: &wire.Error{Code: wire.CodeUnavailable, Reason: rapid.String().Draw(t, "reason"), Stage: "m", Budget: 1, Elapsed: 2},
		}}
		p, err := Encode(r, now)
		require.NoError(t, err)
		back, err := Decode(p, now)
		require.NoError(t, err)
		require.Equal(t, r, back)
		in := time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(t, "due"))
		p, err = Encode(&Message{Batch: &Batch{Due: now.Add(in)}}, now)
		require.NoError(t, err)
		later := now.Add(time.Hour) // the other host's clock
		back, err = Decode(p, later)
		require.NoError(t, err)
		require.Equal(t, later.Add(in), back.Batch.Due)
	})
	p, err := Encode(&Message{Batch: &Batch{}}, now)
	require.NoError(t, err)
	back, err := Decode(p, now)
	require.NoError(t, err)
	require.True(t, back.Batch.Due.IsZero())
	_, err = Encode(&Message{}, now)
	require.Error(t, err)
}

func TestWhatWasSentBeforeCloseArrives(t *testing.T) {
	const n = 200
	seen := make(chan uint64, n)
	address := serve(t, TCPOptions{}, func(s Stream) error {
		defer close(seen)
		for {
			m, err := s.Recv()
			if err != nil {
				return nil
			}
			seen <- m.Result.ID
		}
	})
	s := dial(t, context.Background(), TCPOptions{}, address)
	for i := range uint64(n) {
		require.NoError(t, s.Send(&Message{Result: &Result{ID: i}}))
	}
	require.NoError(t, s.Close())
	want := uint64(0)
	for id := range seen {
		require.Equal(t, want, id)
		want++
	}
	require.Equal(t, uint64(n), want)
}

func TestTheGatewaysLastWordArrives(t *testing.T) {
	address := serve(t, TCPOptions{}, func(s Stream) error {
		return s.Send(&Message{Drain: &Drain{Reason: "bye"}})
	})
	s := dial(t, context.Background(), TCPOptions{}, address)
	m, err := s.Recv()
	require.NoError(t, err)
	require.Equal(t, "bye", m.Drain.Reason)
	_, err = s.Recv()
	require.ErrorIs(t, err, io.EOF)
}

func TestToken(t *testing.T) {
	address := serve(t, TCPOptions{Credentials: secure.Credentials{Token: "secret"}}, echo)
	for _, token := range []string{"", "wrong"} {
		s := dial(t, context.Background(), TCPOptions{Credentials: secure.Credentials{Token: token}}, address)
		_, err := s.Recv()
		require.ErrorContains(t, err, "requires a token")
		require.NoError(t, s.Close())
	}
	s := dial(t, context.Background(), TCPOptions{Credentials: secure.Credentials{Token: "secret"}}, address)
	require.NoError(t, s.Send(&Message{Batch: &Batch{ID: 1}}))
	_, err := s.Recv()
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestOverTLS(t *testing.T) {
	ca := securetest.New(t, "ours")
	files := ca.Issue(t, t.TempDir(), time.Hour)
	anonymous, err := secure.Load(secure.Files{CA: files.CA})
	require.NoError(t, err)
	address := serve(t, TCPOptions{Credentials: secure.Credentials{Identity: ca.Identity(t)}}, echo)
	try := func(i *secure.Identity) error {
		s, err := Dialer{TCPOptions{Credentials: secure.Credentials{Identity: i}}}.Dial(context.Background(), address)
		if err != nil {
			return err
		}
		defer s.Close()
		_ = s.Send(&Message{Batch: &Batch{ID: 1}})
		_, err = s.Recv()
		return err
	}
	require.NoError(t, try(ca.Identity(t)), "either side has a certificate of the CA")
	require.ErrorContains(t, try(anonymous), "requires a certificate of its CA; connect with --tls-cert and --tls-key")
	require.ErrorContains(t, try(securetest.New(t, "theirs").Identity(t)), "give that CA with --tls-ca")
	require.Error(t, try(nil), "not in the clear")
	plain := serve(t, TCPOptions{}, echo)
	_, err = Dialer{TCPOptions{Credentials: secure.Credentials{Identity: ca.Identity(t)}}}.Dial(context.Background(), plain)
	require.ErrorContains(t, err, "does not speak TLS")
	_, err = Dialer{TCPOptions{Credentials: secure.Credentials{Token: "secret"}}}.Dial(context.Background(), "192.0.2.1:1")
	require.ErrorContains(t, err, "--plaintext")
}

// TestExecutorsBeyondTheLimitAreRefused with the reason, also over TLS, while another has the
// one connection that there may be.
func TestExecutorsBeyondTheLimitAreRefused(t *testing.T) {
	for name, c := range map[string]secure.Credentials{"plain": {}, "TLS": {Identity: securetest.New(t, "ours").Identity(t)}} {
		t.Run(name, func(t *testing.T) {
			l, err := listen.Frames("127.0.0.1:0", c, 1, Refusal(listen.Beyond))
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- Serve(ctx, l, patiently(TCPOptions{Credentials: c}), echo) }()
			first := dial(t, ctx, TCPOptions{Credentials: c}, l.Addr().String())
			require.NoError(t, first.Send(&Message{Batch: &Batch{ID: 1}}))
			_, err = first.Recv()
			require.NoError(t, err)
			_, err = dial(t, ctx, TCPOptions{Credentials: c}, l.Addr().String()).Recv()
			require.ErrorContains(t, err, "--max-connections")
			cancel()
			require.NoError(t, <-done)
		})
	}
}

// TestSilentStreams opens 600 streams that send nothing: few are held, and those not for long;
// an executor that sends Hello meanwhile is served once there is room.
func TestSilentStreams(t *testing.T) {
	var held, most atomic.Int64
	address := serve(t, TCPOptions{Patience: 2 * time.Second}, func(s Stream) error {
		n := held.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		defer held.Add(-1)
		return echo(s)
	})
	const n = 600
	ends := make(chan string, n)
	for range n {
		s := dial(t, t.Context(), TCPOptions{Keepalive: -1}, address)
		go func() {
			_, err := s.Recv()
			ends <- err.Error()
			_ = s.Close()
		}()
	}
	refused, late := 0, 0
	for range n {
		switch end := <-ends; {
		case strings.Contains(end, "no more are taken until some have"):
			refused++
		case strings.Contains(end, "no handshake within"):
			late++
		}
	}
	t.Log(refused, late, most.Load())
	require.Equal(t, n, refused+late)
	require.NotZero(t, refused)
	require.LessOrEqual(t, most.Load(), int64(mostSilent))
	s := dial(t, context.Background(), TCPOptions{}, address)
	require.NoError(t, s.Send(&Message{Batch: &Batch{ID: 1}}))
	_, err := s.Recv()
	require.NoError(t, err)
	time.Sleep(2500 * time.Millisecond) // longer than the patience with who is silent
	require.NoError(t, s.Send(&Message{Batch: &Batch{ID: 2}}))
	_, err = s.Recv()
	require.NoError(t, err, "an identified executor may be silent")
	require.NoError(t, s.Close())
}

func TestMessageBeyondTheLimitBreaksTheStream(t *testing.T) {
	address := serve(t, TCPOptions{MaxMessage: 1 << 16}, echo)
	s := dial(t, context.Background(), TCPOptions{}, address)
	require.NoError(t, s.Send(&Message{Batch: &Batch{Items: [][]wire.Tensor{{wire.FromUint8(make([]byte, 1<<17))}}}}))
	_, err := s.Recv()
	require.ErrorContains(t, err, "at most 65536 are allowed")
	require.NoError(t, s.Close())
}

func TestEndsOfBothSides(t *testing.T) {
	ended := make(chan error, 1)
	address := serve(t, TCPOptions{}, func(s Stream) error {
		_ = s.Send(&Message{Drain: &Drain{Reason: "here"}})
		_, err := s.Recv()
		ended <- err
		return errors.New("no place for you")
	})
	ctx, cancel := context.WithCancel(context.Background())
	s := dial(t, ctx, TCPOptions{}, address)
	_, err := s.Recv()
	require.NoError(t, err)
	cancel() // as a worker's death looks to the gateway
	_, err = s.Recv()
	require.ErrorContains(t, err, "canceled")
	require.NotErrorIs(t, <-ended, io.EOF, "a broken stream is not one in good order")

	s = dial(t, context.Background(), TCPOptions{}, address)
	_, err = s.Recv()
	require.NoError(t, err)
	require.NoError(t, s.Send(&Message{Drain: &Drain{}}))
	_, err = s.Recv()
	require.ErrorContains(t, err, "no place for you")
	require.NoError(t, <-ended)
	require.NoError(t, s.Close())
}

func TestNoGatewayAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = Dialer{}.Dial(context.Background(), l.Addr().String())
	require.ErrorContains(t, err, "no gateway answers")
}

func BenchmarkRoundTrip(b *testing.B) {
	s := dial(b, context.Background(), TCPOptions{}, serve(b, TCPOptions{}, echo))
	defer s.Close()
	m := &Message{Batch: &Batch{Items: [][]wire.Tensor{{wire.FromFloat32(make([]float32, 3*96*96), 3, 96, 96)}}}}
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Send(m)
		if _, err := s.Recv(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestResultsOfSingleRequestsArriveWhole(t *testing.T) {
	now := time.Now()
	for _, m := range []*Message{
		{Ready: &Ready{}},
		{Owner: &Owner{Epoch: 1 << 60}},
		{Skip: &Skip{Part: Part{Epoch: 1, Batch: 2, Part: 3, Parts: 4}}},
		{Done: &Done{Epoch: 1, Batch: 2, Waited: 3, Compute: 4, Failed: 5, Away: true}},
		{Batch: &Batch{ID: 7, Part: Part{Epoch: 1, Batch: 2, Part: 1, Parts: 2}}},
		{Batch: &Batch{ID: 4, Items: [][]wire.Tensor{{}}, Apart: true}},
		{Result: &Result{ID: 4, Items: [][]wire.Tensor{{}, {}}, Behind: 1}},
		{Result: &Result{ID: 3, Away: true, Untouched: true, Err: wire.Errorf(wire.CodeUnavailable, "m", "gone")}},
		{Result: &Result{
			ID: 4, Items: [][]wire.Tensor{{wire.FromFloat32([]float32{1}, 1)}, {}, {}},
			Errs:   []*wire.Error{nil, wire.Errorf(wire.CodeInvalid, "m", "bad"), wire.Errorf(wire.CodeInternal, "", "worse")},
			Waited: 5, Compute: 6,
		}},
	} {
		p, err := Encode(m, now)
		require.NoError(t, err)
		back, err := Decode(p, now)
		require.NoError(t, err)
		require.Equal(t, m, back)
	}
	p, err := Encode(&Message{Result: &Result{Items: [][]wire.Tensor{{}}, Errs: []*wire.Error{nil, wire.Errorf(wire.CodeInternal, "", "of a request that is not there")}}}, now)
	require.NoError(t, err)
	back, err := Decode(p, now)
	require.NoError(t, err)
	require.Equal(t, []*wire.Error{nil}, back.Result.Errs)
}

// TestStrangersSayLittle: nothing is read of a token that is as long as a message, and an
// executor's first message is no batch.
func TestStrangersSayLittle(t *testing.T) {
	address := serve(t, TCPOptions{Patience: time.Hour}, echo)
	for name, says := range map[string][]byte{
		"token": stream.AppendLength(bytes.Clone(preamble[:]), stream.MostGreeting+1),
		"Hello": stream.AppendLength(append(bytes.Clone(preamble[:]), frame(kindToken, "")...), mostHello+1),
	} {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		_, err = c.Write(says)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, c) // until it ends
		require.NoError(t, c.Close(), name)
	}
}
