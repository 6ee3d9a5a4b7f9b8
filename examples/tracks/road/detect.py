"""Finds things by their colour on frames of a road, and says which colour: whatever is far from grey and holds
together. In plain Python; it stands for whatever your own detector and classifier are."""

from harpagon_engine import Model, serve

HEIGHT, WIDTH = 72, 128
BOXES = 8      # of a frame, the largest first; those without a width are none
VIVID = 70     # how far the strongest of red, green and blue is above the weakest
LEAST = 12     # pixels of a thing
COLOURS = {(1, 0, 0): "red", (0, 1, 0): "green", (0, 0, 1): "blue", (1, 1, 0): "yellow", (0, 1, 1): "cyan", (1, 0, 1): "magenta"}


def colour(r, g, b):
    """The name of a colour; none of what is nearly grey."""
    low, high = min(r, g, b), max(r, g, b)
    if high - low < VIVID:
        return None
    middle = (low + high) / 2
    return COLOURS[(int(r > middle), int(g > middle), int(b > middle))]


def runs(pixels, y):
    """What is of one colour in a row: colour, first and last x."""
    row, x = [], 0
    at = y * WIDTH * 3
    while x < WIDTH:
        name = colour(*pixels[at + 3 * x:at + 3 * x + 3])
        first = x
        while x < WIDTH and (x == first or colour(*pixels[at + 3 * x:at + 3 * x + 3]) == name):
            x += 1
        if name:
            row.append((name, first, x - 1))
    return row


def things(pixels):
    """What holds together: colour, left, top, right, bottom, pixels. A run joins the one above that it touches."""
    done, above = [], []
    for y in range(HEIGHT):
        row = []
        for name, first, last in runs(pixels, y):
            one = [name, first, y, last, y, last - first + 1]
            for _, a, b, thing in [t for t in above if t[0] == name and t[1] <= last + 1 and first <= t[2] + 1]:
                if thing is not one and thing[5]:
                    thing[1], thing[3], thing[4] = min(thing[1], one[1]), max(thing[3], one[3]), y
                    thing[2], thing[5] = min(thing[2], one[2]), thing[5] + one[5]
                    one[5] = 0  # it is part of that
                    one = thing
            row.append((name, first, last, one))
            if one not in done:
                done.append(one)
        above = row
    return sorted((t for t in done if t[5] >= LEAST), key=lambda t: -t[5])[:BOXES]


class Detector(Model):
    inputs = [("image", "UINT8", [-1, HEIGHT, WIDTH, 3])]
    outputs = [("boxes", "FP32", [-1, BOXES, 4]), ("colours", "BYTES", [-1, BOXES])]

    def infer(self, batch):
        pixels, boxes, colours = bytes(batch["image"].view()), [], []
        size = HEIGHT * WIDTH * 3
        for row in range(batch.rows):
            found = things(pixels[row * size:(row + 1) * size])
            for name, left, top, right, bottom, _ in found:
                boxes += [left / WIDTH, top / HEIGHT, (right - left + 1) / WIDTH, (bottom - top + 1) / HEIGHT]
                colours.append(name)
            boxes += [0.0] * (4 * (BOXES - len(found)))
            colours += [""] * (BOXES - len(found))
        return {"boxes": ([batch.rows, BOXES, 4], boxes), "colours": ([batch.rows, BOXES], colours)}


if __name__ == "__main__":
    serve(Detector())
