package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// template is what init writes, relative to templateRoot.
//
//go:embed template
var template embed.FS

// templateRoot is where the example stands that init writes.
const templateRoot = "template"

// newInitCommand makes harpagon init.
func newInitCommand(d *Deps) *cobra.Command {
	stream := false
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write an example pipeline to start from",
		Long: `Writes a commented pipeline.hcl and the profiles that it names into a folder, the
current one by default. It validates and plans at once, without models and
devices: its profiles are synthetic, made up to look like those of two networks.
Existing files are never overwritten.`,
		Example: `  harpagon init mypipeline
  harpagon plan mypipeline
  harpagon init --stream cameras`,
		Args: atMostOneFolder,
		RunE: func(_ *cobra.Command, args []string) error {
			folder := "."
			if len(args) == 1 {
				folder = args[0]
			}
			return initialise(d, folder, stream)
		},
	}
	c.Flags().BoolVar(&stream, "stream", false, "write a pipeline of cameras: a stream block makes its requests frames")
	return c
}

// ofCameras makes the template one whose requests are frames.
var ofCameras = strings.NewReplacer(
	`--var rate=200, or the
# environment variable HARPAGON_VAR_rate.
variable "rate" {
  type        = number
  default     = 100
  description = "pictures per second"
}`, `--var cameras=20, or the
# environment variable HARPAGON_VAR_cameras.
variable "cameras" {
  type        = number
  default     = 10
  description = "cameras that send pictures"
}`,
	`slo  = "400ms"  # from a picture's arrival to its answer, for every picture
  rate = var.rate # pictures per second
`, `slo = "400ms" # from a picture's arrival to its answer, for every picture

  # The pictures are frames of cameras, each at its own pace. Send some, once it
  # runs: harpagon feed objects --source VIDEO
  stream {
    rate   = 10          # frames per second of one camera
    count  = var.cameras # one more is refused
    jitter = "20ms"      # how far a frame may come after its pace
  }
`)

func atMostOneFolder(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return wrongUse(c, fmt.Errorf("init writes into one folder, not into %d", len(args)))
	}
	return nil
}

// initialise writes all files, or none where one is there already.
func initialise(d *Deps, folder string, stream bool) error {
	names, err := templateFiles()
	if err != nil {
		return err
	}
	if there := taken(folder, names); len(there) > 0 {
		return fmt.Errorf("%s: there already, and init overwrites nothing; name another folder: harpagon init DIR", strings.Join(there, ", "))
	}
	for _, name := range names {
		if err := writeTemplate(folder, name, stream); err != nil {
			return err
		}
		fmt.Fprintln(d.Stdout, "wrote", filepath.Join(folder, name))
	}
	_, err = fmt.Fprintf(d.Stdout, "\nThe profiles are synthetic, so that you can plan at once:\n\n  harpagon plan %s\n\nThen put your models in, and take the profiles out to have them measured.\n", folder)
	return err
}

// taken are the paths of those files that are in the folder already.
func taken(folder string, names []string) (there []string) {
	for _, name := range names {
		if path := filepath.Join(folder, name); exists(path) {
			there = append(there, path)
		}
	}
	return there
}

func templateFiles() ([]string, error) {
	var names []string
	err := fs.WalkDir(template, templateRoot, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, filepath.FromSlash(strings.TrimPrefix(path, templateRoot+"/")))
		}
		return err
	})
	return names, err
}

func writeTemplate(folder, name string, stream bool) error {
	text, err := template.ReadFile(templateRoot + "/" + filepath.ToSlash(name))
	if err != nil {
		return err
	}
	if stream {
		text = []byte(ofCameras.Replace(string(text)))
	}
	return writeFresh(filepath.Join(folder, name), text)
}

// writeFresh writes a file and the folders around it. It refuses to overwrite even one that came
// after a check.
func writeFresh(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(path) // half of it would keep the next attempt from writing it
	}
	return err
}
