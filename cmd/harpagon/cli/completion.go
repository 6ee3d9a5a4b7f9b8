package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/pool"
	"github.com/harpagon/harpagon/workflows/control"
)

// completionTime is how long a shell may wait for the names of what runs.
const completionTime = 2 * time.Second

// complete teaches the shell what may stand where: values of flags, files of
// declarations, and the names of what runs.
func complete(root *cobra.Command, d *Deps) {
	for _, c := range root.Commands() {
		complete(c, d)
	}
	root.Flags().VisitAll(func(f *pflag.Flag) {
		if values := flagValues(root, f.Name); len(values) > 0 {
			// An error would be a flag that is not there, or one completed twice.
			_ = root.RegisterFlagCompletionFunc(f.Name, oneOf(values, f.Value.Type() == "stringSlice"))
		}
		switch f.Name {
		case "var-file", "sizes":
			_ = root.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
		case "state":
			_ = root.MarkFlagDirname(f.Name)
		case "var":
			_ = root.RegisterFlagCompletionFunc(f.Name, variables)
		}
	})
	_, arguments, _ := strings.Cut(root.Use, " ")
	switch {
	case root.ValidArgsFunction != nil:
	case strings.HasPrefix(arguments, "PATH"):
		root.ValidArgsFunction = cobra.FixedCompletions([]cobra.Completion{"hcl"}, cobra.ShellCompDirectiveFilterFileExt)
	case strings.Contains(arguments, "NAME") || strings.HasPrefix(arguments, "PIPELINE") || strings.HasPrefix(arguments, "SERVICE"):
		root.ValidArgsFunction = func(c *cobra.Command, given []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return running(d, c, given, typed)
		}
	}
}

// flagValues are the values that a flag of a command takes, where they are
// known.
func flagValues(c *cobra.Command, name string) []string {
	switch name {
	case "policy":
		if c.Name() == "dispatch" {
			return pipelines.Dispatches(pipelines.KindCluster)
		}
		all := slices.Concat(policies.Names(), pool.Policies(), functions.Policies())
		slices.Sort(all)
		return slices.Compact(all)
	case "cost-model":
		return plan.CostModels()
	case "without":
		return pipelines.Steps()
	case "split":
		return pipelines.Splits()
	case "dispatch":
		return pipelines.Dispatches(pipelines.KindPipeline)
	case "arrivals":
		return []string{"even", "poisson", "gamma:", "trace:"}
	case "engine":
		return engineNames()
	}
	return nil
}

// oneOf completes a value, or the last of several with commas between them.
func oneOf(values []string, several bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := ""
		if at := strings.LastIndexByte(typed, ','); several && at >= 0 {
			before, typed = typed[:at+1], typed[at+1:]
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		var fit []cobra.Completion
		for _, v := range values {
			if strings.HasPrefix(v, typed) {
				fit = append(fit, before+v)
				if strings.HasSuffix(v, ":") {
					directive |= cobra.ShellCompDirectiveNoSpace
				}
			}
		}
		return fit, directive
	}
}

// variables completes the name of --var name=value with those that the named
// files declare.
func variables(_ *cobra.Command, paths []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, _ := hcl.Load(hcl.LoadOptions{}, paths...)
	var fit []cobra.Completion
	for _, name := range config.Variables() {
		if strings.HasPrefix(name+"=", typed) {
			fit = append(fit, name+"=")
		}
	}
	return fit, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// running completes the names of services that run, those that
// stand there already left out. Where nothing answers there are none.
func running(d *Deps, c *cobra.Command, given []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completionTime)
	defer cancel()
	state := ""
	if f := c.Flags().Lookup("state"); f != nil {
		state = f.Value.String()
	}
	find := d.Running
	if find == nil {
		find = func(ctx context.Context, state string) ([]string, error) {
			return namesOf(ctx, &temporalAt{Deps: d, State: state})
		}
	}
	names, err := find(ctx, state)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	one := strings.Count(c.Use, "...") == 0
	var fit []cobra.Completion
	for _, name := range names {
		if strings.HasPrefix(name, typed) && !slices.Contains(given, name) && !(one && len(given) > 0) {
			fit = append(fit, name)
		}
	}
	return fit, cobra.ShellCompDirectiveNoFileComp
}

func namesOf(ctx context.Context, at *temporalAt) (names []string, err error) {
	err = at.With(ctx, func(c *control.Control) error {
		names, err = c.List(ctx)
		return err
	})
	return names, err
}
