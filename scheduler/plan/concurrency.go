package plan

// multiplexes says whether a machine may run several batches side by side. A
// configuration (b, s, d) runs s batches of b at a time, each for d: its
// throughput is s·b/d, while a batch still collects b requests, so that Theorem
// 1 stays d + b/w.
func (o Options) multiplexes() bool { return o.Concurrency && !o.Lacks("concurrency") }

// atConcurrency is the part of a message that says which points count.
func (o Options) atConcurrency() string {
	if o.multiplexes() {
		return ""
	}
	return "at concurrency 1 "
}
