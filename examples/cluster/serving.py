"""Calls of harpagon, and a service that is up for as long as it is needed."""
import contextlib, signal, subprocess, sys


def call(program, *args):
    """What a command prints; where it fails, that and the end."""
    r = subprocess.run([program, *args], capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{' '.join(args)}: {r.stderr}{r.stdout}")
    return r.stdout


@contextlib.contextmanager
def up(program, folder, http, *flags):
    """Brings a declaration up, waits until it serves, and ends it."""
    serving = subprocess.Popen([program, "up", folder, *flags, "--without-ui", "--http", http, "--grpc", "127.0.0.1:0"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said = []
        for line in serving.stdout:
            said.append(line)
            if line.startswith("ready after"):
                break
        else:
            sys.exit("".join(said))
        yield
    finally:
        serving.send_signal(signal.SIGINT)
        serving.wait()
