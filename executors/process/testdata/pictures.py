"""Takes pictures and looks at none of them: what is measured is the way there and back."""

import harpagon_engine


class Pictures(harpagon_engine.Model):
    inputs = [("image", "UINT8", [-1, 3, 224, 224])]
    outputs = [("scores", "FP32", [-1, 1000])]

    def infer(self, batch):
        return {"scores": batch.output("scores", [batch.rows, 1000])}


harpagon_engine.serve(Pictures())
