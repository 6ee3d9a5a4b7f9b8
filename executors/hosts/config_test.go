package hosts

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
)

const example = `
provisioner "v100" {
  min     = 1
  max     = 6
  devices = 2
  commands {
    create = ["./worker.sh", "create", "--emulate", "v100=2"]
    delete = ["./worker.sh", "delete"]
  }
}

provisioner "a100" {
  max     = 4
  devices = 8
  idle    = "10m"
  join    = "15m"
  commands {
    create = ["/usr/local/bin/cloud", "create", "--type=gpu"]
    delete = ["/usr/local/bin/cloud", "delete"]
    limit  = "3m"
  }
}
`

func TestParse(t *testing.T) {
	got, err := parse("hosts.hcl", []byte(example))
	require.NoError(t, err)
	assert.Equal(t, []Provisioner{
		{Hardware: "v100", Min: 1, Max: 6, Devices: 2, Idle: time.Minute, Join: 5 * time.Minute, Commands: Commands{
			Create: []string{"./worker.sh", "create", "--emulate", "v100=2"}, Delete: []string{"./worker.sh", "delete"}, Limit: 2 * time.Minute,
		}},
		{Hardware: "a100", Max: 4, Devices: 8, Idle: 10 * time.Minute, Join: 15 * time.Minute, Commands: Commands{
			Create: []string{"/usr/local/bin/cloud", "create", "--type=gpu"}, Delete: []string{"/usr/local/bin/cloud", "delete"}, Limit: 3 * time.Minute,
		}},
	}, got)
	path := filepath.Join(t.TempDir(), "hosts.hcl")
	require.NoError(t, os.WriteFile(path, []byte(example), 0o600))
	same, err := Load(path)
	require.NoError(t, err)
	assert.Equal(t, got, same)
	_, err = Load(path + "x")
	assert.ErrorContains(t, err, "no such file")
}

func TestParseReportsWhatIsWrong(t *testing.T) {
	for want, src := range map[string]string{
		"h.hcl:1,17-18: Unclosed configuration block":                        `provisioner "a" {`,
		"h.hcl:1,1: min is 3 and max is 2":                                   "provisioner \"a\" {\n min = 3\n max = 2\n devices = 1\n commands {\n create = [\"a\"]\n delete = [\"b\"]\n }\n}",
		"h.hcl:1,1: max is 0; allow at least one host":                       "provisioner \"a\" {\n max = 0\n devices = 1\n commands {\n create = [\"a\"]\n delete = [\"b\"]\n }\n}",
		"h.hcl:1,1: devices is 0; it is how many":                            "provisioner \"a\" {\n max = 1\n devices = 0\n commands {\n create = [\"a\"]\n delete = [\"b\"]\n }\n}",
		"h.hcl:1,17-17: Missing required argument; The argument \"devices\"": "provisioner \"a\" {\n max = 1\n commands {\n create = [\"a\"]\n delete = [\"b\"]\n }\n}",
		"h.hcl:4,2-8: Unsupported argument":                                  "provisioner \"a\" {\n max = 1\n devices = 1\n comand = \"x\"\n commands {\n create = [\"a\"]\n delete = [\"b\"]\n }\n}",
		"h.hcl:2,9-10: Unsuitable value type":                                "provisioner \"a\" {\n max = \"x\"\n devices = 1\n commands {\n create = [\"a\"]\n delete = [\"b\"]\n }\n}",
		"how hosts are created and ended":                                    "provisioner \"a\" {\n max = 1\n devices = 1\n}",
		`there is no process block`:                                          "provisioner \"a\" {\n max = 1\n devices = 1\n process { flags = [\"--emulate\", \"a=1\"] }\n}",
		"create and delete each name a program":                              "provisioner \"a\" {\n max = 1\n devices = 1\n commands {\n create = []\n delete = [\"b\"]\n }\n}",
		`idle is "soon"; write a duration above zero`:                        "provisioner \"a\" {\n max = 1\n devices = 1\n idle = \"soon\"\n commands {\n create = [\"a\"]\n delete = [\"b\"]\n }\n}",
		`limit is "-1s"`:                                                     "provisioner \"a\" {\n max = 1\n devices = 1\n commands {\n create = [\"a\"]\n delete = [\"b\"]\n limit = \"-1s\"\n }\n}",
		`"../a" cannot name a kind of hardware`:                              "provisioner \"../a\" {\n max = 1\n devices = 1\n commands {\n create = [\"a\"]\n delete = [\"b\"]\n }\n}",
		`h.hcl:9,1: hardware "a" has a provisioner already`:                  "provisioner \"a\" {\n max = 1\n devices = 1\n commands {\n create = [\"a\"]\n delete = [\"b\"]\n }\n}\nprovisioner \"a\" {\n max = 1\n devices = 1\n commands {\n create = [\"a\"]\n delete = [\"b\"]\n }\n}",
		"h.hcl:1,1: external leaves making":                                  "provisioner \"a\" {\n min = 1\n max = 1\n devices = 1\n external = true\n}",
		"it declares no provisioner":                                         "",
	} {
		_, err := parse("h.hcl", []byte(src))
		assert.ErrorContains(t, err, want, "%s", src)
	}
	_, err := parse("h.hcl", make([]byte, maxFile+1))
	assert.ErrorContains(t, err, "may have")
}

func TestHostsThatOthersMake(t *testing.T) {
	all, err := parse("h.hcl", []byte("provisioner \"cpu\" {\n max = 4\n devices = 2\n external = true\n}"))
	require.NoError(t, err)
	require.Equal(t, []Provisioner{{Hardware: "cpu", Max: 4, Devices: 2, Idle: DefaultIdle, Join: DefaultJoin, External: true}}, all)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte(`provisioner "a" { max = 1`))
	f.Fuzz(func(t *testing.T, src []byte) {
		defer testkit.WatchStalls(t, len(src))()
		all, err := parse("h.hcl", src)
		if err != nil {
			return
		}
		for _, p := range all {
			assert.True(t, 0 <= p.Min && p.Min <= p.Max && p.Max >= 1 && p.Devices >= 1 && p.Idle > 0 && p.Join > 0)
			assert.True(t, p.External || p.Commands.Create[0] != "")
		}
	})
}

// The example is that of docs/how-to/provision.md.
func TestTheExampleIsRead(t *testing.T) {
	all, err := Load("../../examples/cluster/hosts.hcl")
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, "v100", all[0].Hardware)
	assert.Equal(t, 4, all[0].Max)
	assert.Equal(t, 2, all[0].Devices)
}
