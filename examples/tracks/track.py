"""Gives what a detector has found on the frames of a camera identities that stay from frame to frame: each
box that is near where something was goes on as that, the nearest first. In plain Python; it stands for whatever your
own tracker is."""

from harpagon_engine import Model, serve

BOXES = 8        # of a frame; those without a width are none
NEAR = 0.1 ** 2  # the square of how far something moves between two frames, in widths of the picture
FORGET = 5       # frames for which something may be hidden


def track(session, boxes):
    """The identities of the boxes (x, y, width, height) of a frame, -1 where there is none."""
    known = session.get("known", [])  # identity, x, y, frames hidden
    centres = [(x + w / 2, y + h / 2) if w > 0 else None for x, y, w, h in boxes]
    pairs = sorted(
        (distance, k, i)
        for k, (_, x, y, _) in enumerate(known)
        for i, c in enumerate(centres) if c
        for distance in [(c[0] - x) * (c[0] - x) + (c[1] - y) * (c[1] - y)] if distance <= NEAR)
    ids, taken = [-1] * len(boxes), set()
    for _, k, i in pairs:
        if k not in taken and ids[i] < 0:
            taken.add(k)
            ids[i] = known[k][0]
    following = session.get("following", 0)
    for i, c in enumerate(centres):
        if c and ids[i] < 0:
            ids[i], following = following, following + 1
    session["following"] = following
    session["known"] = [[ids[i], c[0], c[1], 0] for i, c in enumerate(centres) if c] + [
        [identity, x, y, hidden + 1] for k, (identity, x, y, hidden) in enumerate(known) if k not in taken and hidden < FORGET]
    return ids


class Tracker(Model):
    state = True
    inputs = [("boxes", "FP32", [-1, BOXES, 4])]
    outputs = [("ids", "INT64", [-1, BOXES])]

    def infer(self, batch):
        values, ids = batch["boxes"].values(), []
        for row, session in enumerate(batch.sessions):
            of = values[row * BOXES * 4:(row + 1) * BOXES * 4]
            ids += track(session, [of[i:i + 4] for i in range(0, len(of), 4)])
        return {"ids": ([batch.rows, BOXES], ids)}


if __name__ == "__main__":
    serve(Tracker())
