package workflows_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/workflows"
)

var recordPayloads = flag.String("record-payloads", "", "write the payloads of this edition to a file, such as testdata/payloads/2026-11-27.json")

// TestPayloadsOfTheEditionBefore decodes every field of the payloads that earlier editions
// send through Temporal and between gateways and dispatchers, and encodes them again: each
// field is still there, under its name and with its value. So old and new processes
// understand each other, and what is stored is read. Before a release its new payloads are
// recorded:
//
//	go test ./workflows -run TestPayloadsOfTheEditionBefore -record-payloads testdata/payloads/DATE.json
func TestPayloadsOfTheEditionBefore(t *testing.T) {
	types := payloads()
	if *recordPayloads != "" {
		record(t, types, *recordPayloads)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "payloads", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		var before map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(content, &before))
		for name, said := range before {
			of := types[name]
			if !assert.NotNil(t, of, "%s: there is no %s any more", file, name) {
				continue
			}
			value := reflect.New(of)
			if !assert.NoError(t, json.Unmarshal(said, value.Interface()), name) {
				continue
			}
			again, err := json.Marshal(value.Interface())
			require.NoError(t, err, name)
			for _, lost := range missing(name, parsed(t, said), parsed(t, again)) {
				if slices.ContainsFunc(forgotten(), func(field string) bool { return strings.Contains(lost, field) }) {
					continue
				}
				t.Errorf("%s: %s", filepath.Base(file), lost)
			}
		}
	}
}

// forgotten are fields that no code uses any more: what a cluster had learned of a load
// that jumps, and that it was scaled before such a jump. An edition that has them goes on
// from zero values as from a load that it has not seen.
func forgotten() []string { return []string{".Cluster.Wave.", ".Scale.Early "} }

// payloads are the types of all payloads by their use.
func payloads() map[string]reflect.Type {
	all := registry{all: map[string]reflect.Type{}}
	workflows.Register(all)
	activities.RegisterControl(all, &activities.Planning{}, &activities.Fleet{}, &activities.Functions{})
	activities.RegisterHost(all, &activities.Host{})
	activities.RegisterGateway(all, &activities.GatewayActivities{})
	activities.RegisterDispatcher(all, &activities.DispatcherActivities{})
	activities.RegisterProvisioner(all, &activities.Provisioner{})
	for name, value := range map[string]any{
		workflows.UpdateApply: workflows.ApplyRequest{}, workflows.UpdateRescale: workflows.RescaleRequest{},
		workflows.UpdateRollback: workflows.RollbackRequest{}, "the answer to updates": workflows.ChangeReply{},
		workflows.QueryStatus: workflows.Status{}, workflows.SignalMeasures: autoscale.Measures{},
		workflows.SignalFleetChanged: workflows.FleetChange{}, workflows.SignalMissing: workflows.Missing{},
		activities.FleetOwn: activities.OwnClaim{}, activities.FleetEnter: activities.Member{},
		activities.FleetDevices: activities.FleetView{}, "a heartbeat of a host": activities.HostBeat{},
		"a deployment to a dispatcher": placement.Deployment{},
	} {
		all.all[name] = reflect.TypeOf(value)
	}
	return all.all
}

// registry notes the types of what is registered.
type registry struct {
	worker.WorkflowRegistry
	worker.ActivityRegistry
	all map[string]reflect.Type
}

func (r registry) RegisterWorkflowWithOptions(f any, o workflow.RegisterOptions) {
	r.note("workflow "+o.Name, reflect.TypeOf(f), 1) // after the context
}

func (r registry) RegisterActivity(of any) {
	for t, i := reflect.TypeOf(of), 0; i < t.NumMethod(); i++ {
		r.note("activity "+t.Method(i).Name, t.Method(i).Type, 2) // after the receiver and the context
	}
}

func (r registry) note(name string, f reflect.Type, first int) {
	for i := first; i < f.NumIn(); i++ {
		r.all[fmt.Sprintf("%s, argument %d", name, i-first)] = f.In(i)
	}
	for i := range f.NumOut() {
		if f.Out(i) != reflect.TypeFor[error]() {
			r.all[name+", result"] = f.Out(i)
		}
	}
}

// missing are the values of before that are not in now.
func missing(at string, before, now any) (lost []string) {
	switch before := before.(type) {
	case map[string]any:
		fields, _ := now.(map[string]any)
		for name, value := range before {
			lost = append(lost, missing(at+"."+name, value, fields[name])...)
		}
	case []any:
		items, _ := now.([]any)
		for i, value := range before {
			var item any
			if i < len(items) {
				item = items[i]
			}
			lost = append(lost, missing(fmt.Sprintf("%s[%d]", at, i), value, item)...)
		}
	default:
		if before != now {
			lost = append(lost, fmt.Sprintf("%s was %v and is %v", at, before, now))
		}
	}
	return lost
}

func parsed(t *testing.T, text []byte) (value any) {
	require.NoError(t, json.Unmarshal(text, &value))
	return value
}

// record writes every payload with all of its fields set.
func record(t *testing.T, types map[string]reflect.Type, file string) {
	all := map[string]json.RawMessage{}
	for name, of := range types {
		value := reflect.New(of)
		fill(value.Elem(), map[reflect.Type]bool{})
		text, err := json.Marshal(value.Interface())
		require.NoError(t, err, name)
		all[name] = text
	}
	text, err := json.Marshal(all)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, append(text, '\n'), 0o644))
}

// fill sets all that JSON encodes. within are the types around the value, which are not
// begun again.
func fill(v reflect.Value, within map[reflect.Type]bool) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)))
			return
		}
		if within[v.Type()] {
			return
		}
		within[v.Type()] = true
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				fill(v.Field(i), within)
			}
		}
		delete(within, v.Type())
	case reflect.Pointer:
		if !within[v.Type().Elem()] {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), within)
		}
	case reflect.Slice:
		if !within[v.Type().Elem()] {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), within)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), within)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, within)
		fill(value, within)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32:
		v.SetInt(1)
	case reflect.Int64: // durations are written in ms
		v.SetInt(int64(time.Millisecond))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.5)
	}
}
