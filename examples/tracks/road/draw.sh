#!/bin/sh
# Draws a video of a road with ffmpeg: four vehicles of four colours in two directions, of which one
# passes behind another. Forty seconds, or as many as are said, after which it may begin anew.
#
#   examples/tracks/road/draw.sh FILE.mp4 [SECONDS]
set -eu
out=${1:?which file}
seconds=${2:-40}
car() { echo "color=$1:s=$2:r=25:d=$seconds"; }
ffmpeg -nostdin -loglevel error -y \
  -f lavfi -i "color=0x404040:s=640x360:r=25:d=$seconds" \
  -f lavfi -i "$(car red 96x48)" -f lavfi -i "$(car blue 150x64)" \
  -f lavfi -i "$(car yellow 80x40)" -f lavfi -i "$(car green 110x52)" \
  -filter_complex "
    [0]drawbox=x=0:y=0:w=iw:h=60:color=0x707468:t=fill,drawbox=x=0:y=176:w=iw:h=6:color=0xd8d8d8:t=fill,drawbox=x=0:y=310:w=iw:h=50:color=0x707468:t=fill[road];
    [road][1]overlay=x='mod(80*t\,800)-110':y=84[a];
    [a][3]overlay=x='mod(50*t\,800)-110':y=118[b];
    [b][2]overlay=x='660-mod(60*t\,840)':y=196[c];
    [c][4]overlay=x='660-mod(105*t\,840)':y=238[d]" \
  -map "[d]" -c:v libx264 -pix_fmt yuv420p -crf 18 "$out"
