package gateway

// Tee makes one observer of several; each is told in turn.
func Tee(all ...Observer) Observer {
	return Observer{
		RequestBegin: each(all, func(o Observer) func(RequestInfo) { return o.RequestBegin }),
		RequestEnd:   each(all, func(o Observer) func(RequestInfo) { return o.RequestEnd }),
		BatchBegin:   each(all, func(o Observer) func(BatchInfo) { return o.BatchBegin }),
		BatchEnd:     each(all, func(o Observer) func(BatchInfo) { return o.BatchEnd }),
		Dropped:      each(all, func(o Observer) func(DropInfo) { return o.Dropped }),
		Attached:     each(all, func(o Observer) func(ExecutorInfo) { return o.Attached }),
		Detached:     each(all, func(o Observer) func(ExecutorInfo) { return o.Detached }),
		Installed:    each(all, func(o Observer) func(InstallInfo) { return o.Installed }),
		CallEnd:      each(all, func(o Observer) func(CallInfo) { return o.CallEnd }),
		Traced:       each(all, func(o Observer) func(TraceInfo) { return o.Traced }),
	}
}

// each calls one callback of all observers that have it; nil when none has.
func each[T any](all []Observer, pick func(Observer) func(T)) func(T) {
	var calls []func(T)
	for _, o := range all {
		if f := pick(o); f != nil {
			calls = append(calls, f)
		}
	}
	switch len(calls) {
	case 0:
		return nil
	case 1:
		return calls[0]
	}
	return func(v T) {
		for _, f := range calls {
			f(v)
		}
	}
}
