package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/wire/secure"
)

// storeVariable names the store where no flag does.
const storeVariable = "HARPAGON_STORE"

// fetchFlag states how models at addresses are fetched.
type fetchFlag struct{ commands []string }

// Register adds --fetch to a command.
func (f *fetchFlag) Register(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.commands, "fetch", nil, "`SCHEME=COMMAND` that fetches models at addresses of a scheme (oci, s3, gs, hf), with {url} and {file} in it; may be given several times")
}

// Fetcher is that of the flag.
func (f *fetchFlag) Fetcher() (content.Fetcher, error) {
	commands, err := content.ParseCommands(f.commands)
	if err != nil {
		err = fmt.Errorf("--fetch: %w", err)
	}
	return content.Fetcher{Commands: commands}, err
}

// storeFlag names the store of what modules need.
type storeFlag struct{ address string }

// Register adds --store to a command.
func (f *storeFlag) Register(c *cobra.Command, usage string) {
	c.Flags().StringVar(&f.address, "store", "", usage+"; a folder that all hosts see, or http(s)://HOST:PORT of a control role's --store-listen. Otherwise "+storeVariable+" names it")
}

// Store is the one that the flag or the environment names, or else is in the
// folder; nil where there is none of them.
func (f *storeFlag) Store(folder string, c secure.Credentials) (content.Store, error) {
	address := cmp.Or(f.address, os.Getenv(storeVariable), folder)
	if address == "" {
		return nil, nil
	}
	s, err := content.OpenStore(address, c)
	if err != nil {
		err = fmt.Errorf("--store: %w", err)
	}
	return s, err
}

// cacheFlags set where a worker keeps the files of modules.
type cacheFlags struct{ dir, size string }

// Register adds --cache and --cache-size to a command.
func (f *cacheFlags) Register(c *cobra.Command) {
	c.Flags().StringVar(&f.dir, "cache", "", "`folder` that keeps the files of modules; one in the user's cache folder when left out")
	f.RegisterSize(c)
}

// RegisterSize adds --cache-size alone.
func (f *cacheFlags) RegisterSize(c *cobra.Command) {
	c.Flags().StringVar(&f.size, "cache-size", "", "how much of the files of modules to keep, such as 20GiB; what is loaded stays")
}

// Limit is the size in bytes; 0 where none is given.
func (f *cacheFlags) Limit() (int64, error) {
	return Size("cache-size", f.size)
}

// Size parses the bytes in the flag of that name; 0 where it was not given.
func Size(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := quantity.ParseBytes(text)
	if err == nil && n <= 0 {
		err = fmt.Errorf("%s hold nothing", text)
	}
	if err != nil {
		err = fmt.Errorf("--%s: %w", flag, err)
	}
	return n, err
}

// Cache is that of the flags.
func (f *cacheFlags) Cache(store content.Store) (*content.Cache, error) {
	limit, err := f.Limit()
	if err != nil {
		return nil, err
	}
	dir := f.dir
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("there is no cache folder of the user's; name one with --cache: %w", err)
		}
		dir = filepath.Join(base, "harpagon", "models")
	}
	cache := &content.Cache{Dir: dir, Limit: limit}
	if store != nil {
		cache.Stores = []content.Store{store}
	}
	return cache, nil
}
