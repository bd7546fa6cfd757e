import { useEffect } from "react";

const size = 64;

// useFavicon draws how many things wait onto the icon of the page's tab.
export function useFavicon(count: number) {
  useEffect(() => {
    const link = document.querySelector<HTMLLinkElement>("link[rel=icon]");
    if (!link || count === 0) return undefined;
    const before = link.href;
    let gone = false;
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = canvas.height = size;
      const g = canvas.getContext("2d");
      if (gone || !g) return;
      g.drawImage(image, 0, 0, size, size);
      g.fillStyle = "#c2410c";
      g.beginPath();
      g.arc(size - 20, size - 20, 20, 0, 2 * Math.PI);
      g.fill();
      g.fillStyle = "#fff";
      g.font = `bold ${count > 9 ? 22 : 30}px sans-serif`;
      g.textAlign = "center";
      g.textBaseline = "middle";
      g.fillText(count > 99 ? "99+" : String(count), size - 20, size - 19);
      link.href = canvas.toDataURL("image/png");
    };
    image.src = before;
    return () => {
      gone = true;
      link.href = before;
    };
  }, [count]);
}
