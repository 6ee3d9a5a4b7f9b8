package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/harpagon/harpagon/wire"
)

// LogEvery is how often one kind of failure is written at the most, but for the first.
const LogEvery = 10 * time.Second

// Logger writes records. It is safe for concurrent use.
type Logger struct {
	to *slog.Logger

	mu     sync.Mutex
	more   map[eventKind]*repeated
	closed bool
}

// eventKind is what failures have in common that are written together.
type eventKind struct{ what, service, outcome, module, code string }

// repeated are failures since the one that was written.
type repeated struct {
	n     int64
	last  string // reason
	level slog.Level
	timer *time.Timer
}

// NewLog makes a Logger; a nil one writes nothing.
func NewLog(to *slog.Logger) *Logger {
	if to == nil {
		return nil
	}
	return &Logger{to: to, more: map[eventKind]*repeated{}}
}

// Observer is what a gateway reports to.
func (l *Logger) Observer() Observer {
	if l == nil {
		return Observer{}
	}
	return Observer{
		RequestEnd: l.requestEnd,
		BatchEnd:   l.batchEnd,
		CallEnd:    l.callEnd,
		Attached: func(i ExecutorInfo) {
			l.to.Info("executor attached", "service", i.Pipeline, "module", i.Module, "executor", i.Executor, "host", i.Host, "device", i.Device)
		},
		Detached: func(i ExecutorInfo) {
			if i.Err == nil {
				l.to.Info("executor detached", "service", i.Pipeline, "module", i.Module, "executor", i.Executor, "host", i.Host, "device", i.Device)
				return
			}
			l.to.Warn("executor lost", "service", i.Pipeline, "module", i.Module, "executor", i.Executor, "host", i.Host, "device", i.Device, "error", i.Err)
		},
		Installed: func(i InstallInfo) {
			l.to.Info("generation installed", "service", i.Pipeline, "generation", i.Generation, "previous", i.Previous, "executors", i.Executors, "moved", i.Moved)
		},
	}
}

// levels of outcomes: an error where the system is at fault, a warning where load is, info
// where callers are.
var levels = map[Outcome]slog.Level{
	Late: slog.LevelWarn, Dropped: slog.LevelWarn, Refused: slog.LevelWarn,
	Failed: slog.LevelError, Cancelled: slog.LevelInfo, Invalid: slog.LevelInfo,
}

func (l *Logger) requestEnd(i RequestInfo) {
	if i.Outcome == Completed {
		return
	}
	k := eventKind{what: "request", service: i.Pipeline, outcome: i.Outcome.String()}
	reason := "answered after its deadline"
	if e := i.Err; e != nil {
		k.module, k.code, reason = e.Stage, string(e.Code), e.Reason
	}
	l.note(levels[i.Outcome], k, reason, "request_id", i.ID, "generation", i.Generation, "elapsed", i.Elapsed)
}

func (l *Logger) batchEnd(i BatchInfo) {
	if i.Err == nil {
		return
	}
	level := slog.LevelError
	if i.Err.Code == wire.CodeInvalid {
		level = slog.LevelInfo
	}
	l.note(level, eventKind{"batch", i.Pipeline, "failed", i.Module, string(i.Err.Code)}, i.Err.Reason, "executor", i.Executor, "size", i.Size)
}

func (l *Logger) callEnd(i CallInfo) {
	if i.Kind != "" {
		l.note(slog.LevelWarn, eventKind{"call", i.Function, "failed", i.Group, i.Kind}, "the provider gave no good answer", "requests", i.Requests, "again", i.Again)
	}
}

// note writes the first of a kind, and counts the others until LogEvery is over.
func (l *Logger) note(level slog.Level, k eventKind, reason string, more ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.more[k]; r != nil {
		r.n, r.last = r.n+1, reason
		return
	}
	l.to.Log(context.Background(), level, k.what+" "+k.outcome, append(k.attributes(reason), more...)...)
	if !l.closed {
		l.more[k] = &repeated{level: level, timer: time.AfterFunc(LogEvery, func() { l.sum(k) })}
	}
}

func (k eventKind) attributes(reason string) []any {
	all := []any{"service", k.service}
	if k.module != "" {
		all = append(all, "module", k.module)
	}
	if k.code != "" {
		all = append(all, "code", k.code)
	}
	return append(all, "reason", reason)
}

// sum writes how many of a kind came since the one before, and forgets the kind when
// there were none.
func (l *Logger) sum(k eventKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.more[k]
	if r == nil {
		return
	}
	if r.n == 0 || l.closed {
		delete(l.more, k)
		return
	}
	l.rest(k, r)
	r.n = 0
	r.timer.Reset(LogEvery)
}

func (l *Logger) rest(k eventKind, r *repeated) {
	l.to.Log(context.Background(), r.level, k.what+" "+k.outcome, append(k.attributes(r.last), "more", r.n)...)
}

// Close writes what is counted and not written yet.
func (l *Logger) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for k, r := range l.more {
		r.timer.Stop()
		if r.n > 0 {
			l.rest(k, r)
		}
	}
	clear(l.more)
}
