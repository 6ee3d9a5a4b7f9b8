// Package logs writes what a gateway sees go wrong, and what it is told to serve, as
// structured records (log/slog).
//
// Whenever requests fail, the log says so: the first request of a kind (service, outcome,
// module, code) is written at once with its reason, and how many more there were within
// Every follows in one record, so that a flood of failures neither hides the log nor
// fills the disk. Requests that are answered in time cost one comparison.
//
//	l := logs.New(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
//	g := gateway.New(gateway.Options{Observer: l.Observer()})
//	defer l.Close()
package logs
