package autoscale

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/functions"
)

// Sum is what several gateways saw of one service at about the same time. Counts and
// rates add up. Of a duration, the median is the mean of the medians, weighted by how
// many it rests on; higher percentiles are those of the gateway where they are worst,
// which is no less than that of all. The sum of none is the zero Measures.
func Sum(all ...Measures) Measures {
	if len(all) == 0 {
		return Measures{}
	}
	sum := all[0]
	sum.Modules, sum.Tried, sum.Members = cloned(sum.Modules), cloned(sum.Tried), slices.Clone(sum.Members)
	for _, m := range all[1:] {
		add(&sum, m)
	}
	sum.SetAttainment()
	return sum
}

func add(sum *Measures, m Measures) {
	sum.Gateway = ""
	switch { // parts of a stream tell nothing of the whole
	case sum.Arrived == 0:
		sum.Gaps = m.Gaps
	case m.Arrived > 0:
		sum.Gaps = nil
	}
	sum.Latency = worst(sum.Latency, m.Latency, sum.Completed+sum.Late, m.Completed+m.Late)
	sum.Generation = max(sum.Generation, m.Generation)
	if m.From.Before(sum.From) {
		sum.From = m.From
	}
	if m.To.After(sum.To) {
		sum.To = m.To
	}
	sum.Offered += m.Offered
	sum.Arrived += m.Arrived
	sum.InFlight += m.InFlight
	sum.Completed += m.Completed
	sum.Late += m.Late
	sum.Dropped += m.Dropped
	sum.Refused += m.Refused
	sum.Failed += m.Failed
	sum.Cancelled += m.Cancelled
	sum.Invalid += m.Invalid
	switch {
	case m.Canary == nil:
	case sum.Canary == nil || sum.Canary.Generation < m.Canary.Generation:
		sum.Canary = m.Canary
	case sum.Canary.Generation == m.Canary.Generation:
		both := sum.Canary.Add(*m.Canary)
		sum.Canary = &both
	}
	addModules(&sum.Modules, m.Modules)
	addModules(&sum.Tried, m.Tried)
	for _, member := range m.Members {
		i := slices.IndexFunc(sum.Members, func(o Measures) bool { return o.Pipeline == member.Pipeline })
		if i < 0 {
			sum.Members = append(sum.Members, member)
			continue
		}
		sum.Members[i] = Sum(sum.Members[i], member)
	}
	switch {
	case sum.Function == nil:
		sum.Function = m.Function
	case m.Function != nil:
		f := functions.Sum(*sum.Function, *m.Function)
		sum.Function = &f
	}
}

func cloned(modules []ModuleMeasures) []ModuleMeasures {
	modules = slices.Clone(modules)
	for i := range modules {
		modules[i].Drops = maps.Clone(modules[i].Drops)
	}
	return modules
}

func addModules(sum *[]ModuleMeasures, all []ModuleMeasures) {
	for _, m := range all {
		if i := slices.IndexFunc(*sum, func(o ModuleMeasures) bool { return o.Name == m.Name }); i >= 0 {
			(*sum)[i].add(m)
		} else {
			*sum = append(*sum, m)
		}
	}
}

func (m *ModuleMeasures) add(o ModuleMeasures) {
	m.Queue = worst(m.Queue, o.Queue, m.Requests, o.Requests)
	m.Wait = worst(m.Wait, o.Wait, m.Requests, o.Requests)
	m.Compute = worst(m.Compute, o.Compute, m.Requests, o.Requests)
	m.Transfer = worst(m.Transfer, o.Transfer, m.Requests, o.Requests)
	if n := m.Batches + o.Batches; n > 0 {
		m.MeanBatch = (m.MeanBatch*float64(m.Batches) + o.MeanBatch*float64(o.Batches)) / float64(n)
	}
	m.Rate += o.Rate
	m.Requests += o.Requests
	m.Batches += o.Batches
	m.Dropped += o.Dropped
	m.Failed += o.Failed
	m.Failure = cmp.Or(m.Failure, o.Failure)
	m.Waiting += o.Waiting
	for reason, n := range o.Drops {
		if m.Drops == nil {
			m.Drops = map[string]int64{}
		}
		m.Drops[reason] += n
	}
	m.Queries = merge(m.Queries, o.Queries, func(a, b QueryCount) int { return cmp.Compare(a.Size, b.Size) },
		func(a, b QueryCount) QueryCount { return QueryCount{a.Size, a.Queries + b.Queries} })
	m.Sizes = merge(m.Sizes, o.Sizes, func(a, b SizeCount) int { return cmp.Compare(a.Size, b.Size) },
		func(a, b SizeCount) SizeCount { return SizeCount{a.Size, a.Batches + b.Batches} })
	m.Executors = merge(m.Executors, o.Executors, func(a, b ExecutorMeasures) int { return cmp.Compare(a.Executor, b.Executor) },
		func(a, b ExecutorMeasures) ExecutorMeasures {
			return ExecutorMeasures{a.Executor, a.Batches + b.Batches, a.Requests + b.Requests, a.Utilisation + b.Utilisation}
		})
	m.Durations = merge(m.Durations, o.Durations, func(a, b BatchDuration) int {
		return cmp.Or(cmp.Compare(a.Hardware, b.Hardware), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Concurrency, b.Concurrency))
	}, func(a, b BatchDuration) BatchDuration {
		return BatchDuration{a.Hardware, a.Size, a.Batches + b.Batches, mean(a.P50, b.P50, a.Batches, b.Batches), max(a.P95, b.P95), a.Concurrency}
	})
	m.Transfers = merge(m.Transfers, o.Transfers, func(a, b HostTransfer) int { return cmp.Compare(a.Host, b.Host) },
		func(a, b HostTransfer) HostTransfer {
			return HostTransfer{a.Host, a.Batches + b.Batches, mean(a.P50, b.P50, a.Batches, b.Batches), max(a.P99, b.P99)}
		})
}

// merge joins two lists into one in order, of which equal elements are joined.
func merge[T any](a, b []T, compare func(T, T) int, join func(T, T) T) []T {
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, compare)
	out := all[:0]
	for _, one := range all {
		if n := len(out); n > 0 && compare(out[n-1], one) == 0 {
			out[n-1] = join(out[n-1], one)
		} else {
			out = append(out, one)
		}
	}
	return out
}

func worst(a, b Percentiles, n, m int64) Percentiles {
	return Percentiles{P50: mean(a.P50, b.P50, n, m), P90: max(a.P90, b.P90), P99: max(a.P99, b.P99), Max: max(a.Max, b.Max)}
}

// mean weighs two durations by how many each rests on.
func mean(a, b time.Duration, n, m int64) time.Duration {
	if n+m == 0 {
		return max(a, b)
	}
	return time.Duration((float64(a)*float64(n) + float64(b)*float64(m)) / float64(n+m))
}
